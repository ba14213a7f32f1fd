#!/usr/bin/env bash
# no_destructors.sh LIBRARY…: what programs link has no static that exit() destroys: their threads may still use it.
set -euo pipefail
[ $# -ge 1 ] || { echo "no libraries to check"; exit 2; }
status=0
for library in "$@"; do
  symbols=$(nm -A "$library" 2>/dev/null)
  [ -n "$symbols" ] || { echo "$library has no symbols"; exit 2; }
  found=$(grep -E ' U __cxa_atexit$' <<< "$symbols" || true)
  if [ -n "$found" ]; then
    echo "$library destroys statics: kiln::dsl::Kept does not"
    echo "$found"
    status=1
  fi
done
exit $status
