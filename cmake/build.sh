# Sourced by quickstart.sh and tests/run.sh.

# configure PRESET OPTION…: where nothing is built yet, for the shortest build of everything (cmake/KilnUnity.cmake).
configure() {
  local preset=$1 first=()
  shift
  [ -f "build/$preset/CMakeCache.txt" ] || first=(-DKILN_UNITY=ON)
  cmake --preset "$preset" "${first[@]}" "$@"
}

# build_targets PRESET [TARGET…]: builds them, all without names, and shows how far it
# is: on a terminal as ninja does, elsewhere by a line a minute. Warnings and errors are shown as they come.
build_targets() {
  local preset=$1
  shift
  local command=(cmake --build --preset "$preset" ${1:+--target "$@"})
  export NINJA_STATUS="[%f/%t, %e s] "
  if [ -t 1 ]; then
    "${command[@]}"
  else
    "${command[@]}" | line_a_minute
  fi
}

# Passes one line of progress a minute, and everything else.
line_a_minute() {
  local line next=$SECONDS minute=${MINUTE:-60}
  while IFS= read -r line || [ -n "$line" ]; do
    if [[ $line =~ ^\[[0-9]+/[0-9]+,\  ]]; then
      [ "$SECONDS" -ge "$next" ] || continue
      next=$((SECONDS + minute))
    fi
    printf '%s\n' "$line"
  done
}
