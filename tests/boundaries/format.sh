#!/usr/bin/env bash
# format.sh SOURCE_DIR: every C++ file is as clang-format lays it out. In a clone those that are as they were some commits ago
# have been looked at since; all are with KILN_TEST_ALL, and where the layout itself is new.
set -euo pipefail
cd "$1"
. cmake/packages.sh
looked_at=HEAD~50

files() {
  find dsl codegen client autotune server tests -name '*.cpp' -o -name '*.h'
}

# Of what git has and has not yet; fails outside of a clone, and in one that does not reach so far.
changed() {
  git diff --quiet "$looked_at" -- .clang-format && git show "$looked_at:cmake/packages.sh" | grep -qx "KILN_LLVM=$KILN_LLVM" &&
    git diff --name-only --diff-filter=d "$looked_at" && git ls-files --others --exclude-standard
}

if [ -z "${KILN_TEST_ALL:-}" ] && list=$(changed 2>/dev/null); then
  files | grep -Fx -f <(printf '%s\n' "$list") || true
else
  files
fi | xargs -r clang-format-$KILN_LLVM --dry-run --Werror
