# clean_up.sh, to be sourced: clean_up DIR RUNTIME_DIR asks the daemon of RUNTIME_DIR to end, waits until it has, so that
# it writes nothing behind the removal, and removes DIR. Its status is 0: what was tested decides a test's own.
clean_up() {
  local daemon="kilnd .*--runtime-dir $2( |\$)"
  pkill -f -- "$daemon" || true
  for _ in $(seq 200); do
    pgrep -f -- "$daemon" >/dev/null || break
    sleep 0.05
  done
  pkill -KILL -f -- "$daemon" || true
  rm -rf "$1" || true
}
