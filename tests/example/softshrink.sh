#!/usr/bin/env bash
# softshrink.sh EXECUTABLE: the activation is a fallback with its bytes, then a launch, and the results are equal.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-softshrink-XXXXXX)
source "$(dirname "$0")/clean_up.sh"
trap 'clean_up "$home" "$home/run"' EXIT
mkdir -m 700 "$home/run"
HOME="$home" XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run" "$1" cpu | tee "$home/out"
sed '/by a kernel/,$d' "$home/out" >"$home/before"
sed -n '/by a kernel/,$p' "$home/out" >"$home/after"
grep -q '^fallback of softshrink, 4194304 bytes copied: a loop of the host$' "$home/before"
grep -q ' copy cpu:0 from the device$' "$home/before"
! grep -q ' launch cpu softshrink$' "$home/before"
grep -q ' launch cpu softshrink$' "$home/after"
! grep -q '^fallback' "$home/after"
grep -q '^results are equal$' "$home/after"
