#!/usr/bin/env bash
# systemd.sh BUILD_DIR: a systemd of our own, a user's manager, runs the installed units. It gets namespaces and a control
# group of its own, which takes root; where it does not come up, the test is skipped.
set -euo pipefail
here=$(realpath "$0")

skip() { echo "[SKIPPED] $1"; exit 77; }

# The part that runs inside: WORK is the directory of everything.
inside() {
  work=$1
  mount --make-rprivate /
  mount -t proc proc /proc
  mount -t tmpfs tmpfs /run
  mkdir -p /run/systemd/system
  export XDG_RUNTIME_DIR=$work/run SYSTEMD_UNIT_PATH=$work/units:$work/prefix/lib/systemd/user:/usr/lib/systemd/user
  export HOME=$work/home XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config PATH=$work/prefix/bin:$PATH
  # Whatever a daemon of the client's starts must not hide that the socket did not.
  unset KILN_RUNTIME_DIR KILN_CACHE_DIR
  mkdir -p -m 700 "$XDG_RUNTIME_DIR"
  SYSTEMD_LOG_TARGET=console /lib/systemd/systemd --user --unit=basic.target >"$work/manager.log" 2>&1 &
  for _ in $(seq 100); do
    systemctl --user is-active --quiet basic.target 2>/dev/null && break
    sleep 0.1
  done
  systemctl --user is-active --quiet basic.target 2>/dev/null || { cat "$work/manager.log"; exit 77; }
  (scenario) || { cat "$work/manager.log"; systemctl --user status --no-pager kilnd.socket kilnd.service; return 1; }
}

pid_of() { kiln ping | awk '/^pid/ { print $2 }'; }
main_pid() { systemctl --user show -P MainPID kilnd.service; }
fail() { echo "FAILED: $1"; exit 1; }

scenario() {
  local kernel=$work/prefix/share/kiln/examples/vector_add.kiln own first second
  # A daemon that a client had started does not keep the units from working.
  kiln compile "$kernel" --emit obj -o "$work/a.o" || fail "a client's own daemon"
  own=$(pid_of)
  systemctl --user start kilnd.socket || fail "the socket unit"
  first=$(pid_of)
  [ "$first" != "$own" ] && [ "$first" = "$(main_pid)" ] || fail "activation: pid $first, own $own, main $(main_pid)"
  [ "$(stat -c %a "$XDG_RUNTIME_DIR/kiln" "$XDG_RUNTIME_DIR/kiln/kilnd.v1.sock" | xargs)" = "700 600" ] || fail "modes"
  kiln compile "$kernel" --emit obj -o "$work/b.o" && cmp "$work/a.o" "$work/b.o" || fail "a compile"
  echo "activated by its socket, compiled"

  mkdir -p "$XDG_CONFIG_HOME/kiln"
  echo 'queue-limit = 77' >"$XDG_CONFIG_HOME/kiln/kilnd.toml"
  systemctl --user reload kilnd.service || fail "reload"
  for _ in $(seq 100); do
    reloaded=$(kiln stats --json | grep -c '"queue_jobs": 77' || true)
    [ "$reloaded" = 0 ] || break
    sleep 0.1
  done
  [ "$reloaded" != 0 ] && [ "$(pid_of)" = "$first" ] || fail "the reload changed nothing: $(kiln stats --json | grep queue)"
  echo "reloaded"

  # It leaves, and the next client brings it back.
  kiln stop || fail "stop"
  second=$(pid_of)
  [ -n "$second" ] && [ "$second" != "$first" ] || fail "a client after the end: $second"
  kill -9 "$second"
  for _ in $(seq 300); do
    third=$(main_pid)
    [ "$third" = 0 ] || [ "$third" = "$second" ] || break
    sleep 0.1
  done
  [ "$(pid_of)" = "$(main_pid)" ] && [ "$(main_pid)" != "$second" ] || fail "a restart after a failure"
  echo "came back after its end and after a kill"

  # A daemon that hangs: systemd 252 aborts it, and starts another.
  mkdir -p "$work/units/kilnd.service.d"
  printf '[Service]\nWatchdogSec=1s\nTimeoutAbortSec=1s\n' >"$work/units/kilnd.service.d/short.conf"
  systemctl --user daemon-reload && systemctl --user restart kilnd.service || fail "restart"
  hung=$(main_pid)
  kill -STOP "$hung"
  for _ in $(seq 600); do
    next=$(main_pid)
    [ "$next" = 0 ] || [ "$next" = "$hung" ] || break
    sleep 0.1
  done
  [ "$(pid_of)" != "$hung" ] || fail "the watchdog"
  echo "replaced by the watchdog"

  systemctl --user stop kilnd.socket kilnd.service || fail "stopping the units"
  [ "$(systemctl --user show -P Result kilnd.service)" = success ] || fail "the end was no success"
  echo "stopped"
}

if [ "${2:-}" = inside ]; then
  inside "$1"
  exit
fi

[ -x /lib/systemd/systemd ] || skip "systemd is not installed (Debian: systemd)"
[ "$(id -u)" = 0 ] || skip "not root"
unshare -pfm --mount-proc true 2>/dev/null || skip "namespaces cannot be made here"
groups=/sys/fs/cgroup/systemd
[ -d $groups ] || groups=/sys/fs/cgroup
group=$groups/kiln-test-$$
mkdir "$group" 2>/dev/null || skip "control groups cannot be made here"
work=$(mktemp -d /tmp/kiln-systemd-XXXXXX)
trap 'rm -rf "$work"; find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
status=0
(echo $BASHPID >"$group/cgroup.procs" && exec unshare -pfm --mount-proc "$here" "$work" inside) || status=$?
[ $status != 77 ] || echo "[SKIPPED] no user manager comes up here"
exit $status
