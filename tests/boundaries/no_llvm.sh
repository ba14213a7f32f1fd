#!/usr/bin/env bash
# no_llvm.sh FILE…: no executable loads libLLVM, and no library refers to a symbol of LLVM or LLD.
# `grep -c`, not `grep -q`: it reads to the end, so that pipefail never mistakes a match for a broken pipe.
set -euo pipefail
[ $# -ge 1 ] || { echo "no files to check"; exit 2; }
status=0
for file in "$@"; do
  symbols=$(nm -C "$file" 2>/dev/null | grep -cE ' (llvm|lld)::' || true)
  loaded=0
  [ -x "$file" ] && loaded=$(ldd "$file" | grep -ci llvm || true)
  if [ "$symbols" -gt 0 ] || [ "$loaded" -gt 0 ]; then
    echo "$file depends on LLVM"
    status=1
  fi
done
exit $status
