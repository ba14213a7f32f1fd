#!/usr/bin/env bash
# run.sh EXECUTABLE: runs the example with directories of its own; it must start a daemon and print the right value.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-example-XXXXXX)
source "$(dirname "$0")/clean_up.sh"
trap 'clean_up "$home" "$home/run"' EXIT
mkdir -m 700 "$home/run"
out=$(HOME="$home" XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run" "$1")
echo "$out"
[ "$out" = "out[1000002] = 5" ]
