#!/usr/bin/env bash
# Runs one golden file: golden.sh KILN-PASSES FILECHECK FILE
set -euo pipefail
passes=$1 filecheck=$2 file=$3
if [ ! -x "$filecheck" ]; then
  echo "[SKIPPED] FileCheck is not installed (Debian: the llvm-…-tools of cmake/packages.sh)"
  exit 77
fi
flags=$(sed -n 's,^\(//\|;\) RUN: ,,p' "$file")
[ -n "$flags" ] || { echo "$file has no line RUN:"; exit 1; }
# shellcheck disable=SC2086
"$passes" $flags "$file" | "$filecheck" --dump-input-context=20 "$file"
