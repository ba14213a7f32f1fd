#!/usr/bin/env bash
# format.sh SOURCE_DIR: every C++ file is as clang-format 19 lays it out.
set -euo pipefail
cd "$1"
find dsl codegen client autotune server tests -name '*.cpp' -o -name '*.h' | xargs clang-format-19 --dry-run --Werror
