#!/usr/bin/env bash
# verify.sh BUILD_DIR: systemd finds nothing wrong with the installed units.
set -euo pipefail
command -v systemd-analyze >/dev/null || { echo "[SKIPPED] systemd-analyze is not installed (Debian: systemd)"; exit 77; }
work=$(mktemp -d /tmp/kiln-verify-XXXXXX)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
units="$work/prefix/lib/systemd"
export XDG_RUNTIME_DIR="$work/run"
mkdir -m 700 "$work/run"
# An instance's name is a user's.
for name in socket service; do
  cp "$units/system/kilnd@.$name" "$work/kilnd@games.$name"
done
check() {
  "$@" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
  # A warning about our files is an error; about units of this machine it is not.
  if grep -F kilnd "$work/said"; then exit 1; fi
}
check systemd-analyze verify --man=no --user "$units/user/kilnd.socket" "$units/user/kilnd.service"
check systemd-analyze verify --man=no "$work/kilnd@games.socket" "$work/kilnd@games.service"
echo "systemd-analyze verify: nothing to say"
