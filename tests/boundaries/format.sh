#!/usr/bin/env bash
# format.sh SOURCE_DIR: every C++ file is as clang-format lays it out.
set -euo pipefail
cd "$1"
. cmake/packages.sh
find dsl codegen client autotune server tests -name '*.cpp' -o -name '*.h' | xargs clang-format-$KILN_LLVM --dry-run --Werror
