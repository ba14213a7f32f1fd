#!/usr/bin/env bash
# installed.sh BUILD_DIR EXAMPLE_DIR: README.md's example as a project of a user's own, by README.md's commands, against an
# installation that was moved and against the build directory. Nothing of either is in PATH, and no variable names it.
set -euo pipefail
work=$(mktemp -d /tmp/kiln-installed-XXXXXX)
source "$2/clean_up.sh"
trap 'clean_up "$work" "$work/run"' EXIT
bare=(env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$work/home" KILN_RUNTIME_DIR="$work/run")
mkdir -m 700 "$work/run"
mkdir "$work/home" "$work/project"
cp "$2/scale_add.cpp" "$2/consumer/CMakeLists.txt" "$work/project"

# example BUILD_DIR CMAKE_OPTION BIN_DIR: builds and runs it; the daemon that it starts is BIN_DIR's.
example() {
  "${bare[@]}" cmake -G Ninja -S "$work/project" -B "$1" "$2" >"$1.log" || { cat "$1.log"; return 1; }
  "${bare[@]}" cmake --build "$1" >>"$1.log" || { cat "$1.log"; return 1; }
  local out
  out=$("${bare[@]}" "$1/scale_add")
  echo "$out"
  [ "$out" = "out[1000002] = 5" ]
  pgrep -f -- "^$3/kilnd .*--runtime-dir $work/run( |\$)" >/dev/null || { echo "no daemon of $3 runs"; return 1; }
  "${bare[@]}" "$3/kiln" stop
}

cmake --install "$1" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"
if grep -rl "nlohmann/" "$work/prefix/include" "$work/prefix/lib/cmake"; then
  echo "an installed header or package file needs the JSON library"
  exit 1
fi
example "$work/build" "-DCMAKE_PREFIX_PATH=$work/prefix" "$work/prefix/bin"
example "$work/in_tree" "-DKiln_DIR=$1" "$(realpath "$1")/bin"
# The C library, by pkg-config and alone by CMake.
program=$(realpath "$2/../client/c/example.c")
flags=$(PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" pkg-config --cflags --libs kiln)
"${bare[@]}" cc -std=c99 "$program" $flags -o "$work/squares"
[ "$("${bare[@]}" LD_LIBRARY_PATH="$work/prefix/lib" "$work/squares")" = "16 25 36" ]
pgrep -f -- "^$work/prefix/bin/kilnd .*--runtime-dir $work/run( |\$)" >/dev/null
mkdir "$work/c"
cat >"$work/c/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(squares C)
find_package(Kiln REQUIRED COMPONENTS c)
add_executable(squares $program)
target_link_libraries(squares PRIVATE Kiln::c)
END
"${bare[@]}" cmake -S "$work/c" -B "$work/c/build" "-DCMAKE_PREFIX_PATH=$work/prefix" >/dev/null
"${bare[@]}" cmake --build "$work/c/build" >/dev/null
[ "$("${bare[@]}" "$work/c/build/squares")" = "16 25 36" ]
"${bare[@]}" "$work/prefix/bin/kiln" stop
# The tuner finds its runner, its daemon and the job lists.
export KILN_RUNTIME_DIR="$work/run" KILN_CACHE_DIR="$work/cache" XDG_DATA_HOME="$work/data"
[ -e "$work/prefix/share/kiln/jobs/llama3_8b.jsonl" ]
"$work/prefix/bin/kiln" tune "$work/prefix/share/kiln/jobs/quickstart.jsonl" --frozen --json >"$work/tuned.json"
grep -q '"failed_jobs": 0' "$work/tuned.json"
