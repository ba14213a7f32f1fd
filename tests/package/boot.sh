#!/usr/bin/env bash
# boot.sh ROOT: boots the Debian in the directory ROOT, which has systemd and the package, in namespaces of its own, and runs
# the system's units there for the account `games`. Part of chroot.sh.
set -euo pipefail
root=$1

in_namespaces() {
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd" ||
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  exec chroot "$root" /usr/bin/env -i container=kiln /lib/systemd/systemd --unit=multi-user.target --log-target=null
}

if [ "${2:-}" = inside ]; then
  in_namespaces
fi

cat >"$root/usr/local/bin/scenario" <<'SCENARIO'
#!/bin/sh
export KILN_RUNTIME_DIR=/run/kiln/games
as_games() { setpriv --reuid games --regid games --clear-groups "$@"; }
pid_of() { as_games kiln ping | awk '/^pid/ { print $2 }'; }
main_pid() { systemctl show -P MainPID kilnd@games.service; }
check() {
  systemctl start kilnd@games.socket || return 1
  as_games kiln compile /usr/share/kiln/examples/vector_add.kiln --emit asm -o - >/dev/null || return 2
  first=$(main_pid)
  [ "$first" != 0 ] && [ "$(pid_of)" = "$first" ] || return 3
  # The directory keeps others out: the socket is the one that systemd made.
  [ "$(stat -c '%U %a' /run/kiln/games /run/kiln/games/kilnd.v1.sock | xargs)" = "games 700 root 666" ] || return 4
  systemctl reload kilnd@games.service && [ "$(pid_of)" = "$first" ] || return 5
  kill -9 "$first"
  # Under control groups of version 1 nobody tells this systemd that a group is empty: it waits for TimeoutStopSec.
  for i in $(seq 600); do
    next=$(main_pid)
    [ "$next" = 0 ] || [ "$next" = "$first" ] || break
    sleep 0.1
  done
  [ "$(pid_of)" = "$(main_pid)" ] || return 6
  [ "$(find /var/cache/kiln/games/v1 -type f | wc -l)" = 1 ] || return 7
  systemctl stop kilnd@games.socket kilnd@games.service || return 8
  [ "$(systemctl show -P Result kilnd@games.service)" = success ] || return 9
}
check && echo "the system's units work" || { echo "FAILED: step $?"; systemctl status --no-pager 'kilnd@*'; }
systemctl poweroff --force --force
SCENARIO
chmod +x "$root/usr/local/bin/scenario"
cat >"$root/etc/systemd/system/scenario.service" <<'UNIT'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/usr/local/bin/scenario
StandardOutput=file:/var/log/scenario
StandardError=file:/var/log/scenario
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../scenario.service "$root/etc/systemd/system/multi-user.target.wants/scenario.service"
# The devices are this machine's: no logins, and nothing that speaks to terminals.
ln -sf /dev/null "$root/etc/systemd/system/getty.target"
ln -sf /dev/null "$root/etc/systemd/system/systemd-logind.service"
: >"$root/var/log/scenario"

groups=/sys/fs/cgroup/systemd
[ -d $groups ] || groups=/sys/fs/cgroup
group=$groups/kiln-boot-$$
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true' EXIT
# An init ends by being killed.
(echo "$BASHPID" >"$group/cgroup.procs" &&
  exec timeout -s KILL 120 unshare --kill-child -pfmC --mount-proc "$(realpath "$0")" "$root" inside) </dev/null >/dev/null 2>&1 || true
cat "$root/var/log/scenario"
grep -q "units work" "$root/var/log/scenario"
