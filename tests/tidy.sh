#!/usr/bin/env bash
# Runs clang-tidy with the repository's checks over all sources, or over those whose path matches the argument.
# Needs a configured release build; takes many minutes, so it is not part of the default suite.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/packages.sh
install_missing clang-tidy-$KILN_LLVM libomp-$KILN_LLVM-dev
cmake --preset release >/dev/null
# The build is gcc's: its warnings' names and precompiled headers are not clang's, nor is its omp.h.
exec run-clang-tidy-$KILN_LLVM -quiet -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-ignored-gch -p build/release "${1:-^$PWD/(dsl|codegen|autotune|server|client)/}"
