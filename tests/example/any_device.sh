#!/usr/bin/env bash
# any_device.sh EXECUTABLE KIND: the program on a device of that kind, a fake one perhaps, says that all is right.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-any-XXXXXX)
source "$(dirname "$0")/clean_up.sh"
trap 'clean_up "$home" "$home/run"' EXIT
mkdir -m 700 "$home/run"
HOME="$home" XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run" "$1" "$2" | tee "$home/out"
grep -q "^$2: y\[7\] = 210, 10 replays in " "$home/out"
grep -q '^every element is right$' "$home/out"
[ "$(grep -cE '^ +10 .* replay' "$home/out")" -ge 1 ]
