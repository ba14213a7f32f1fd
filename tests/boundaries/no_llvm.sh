#!/usr/bin/env bash
# no_llvm.sh FILE…: no executable loads libLLVM, and no library refers to a symbol of LLVM or LLD.
set -euo pipefail
status=0
for file in "$@"; do
  if nm -C "$file" 2>/dev/null | grep -qE ' (llvm|lld)::' || { [ -x "$file" ] && ldd "$file" | grep -qi llvm; }; then
    echo "$file depends on LLVM"
    status=1
  fi
done
[ $# -ge 6 ] || { echo "too few files to check"; status=1; }
exit $status
