#!/usr/bin/env bash
# Runs clang-tidy 19 with the repository's checks over all sources, or over those whose path matches the argument.
# Needs a configured release build; takes many minutes, so it is not part of the default suite.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/packages.sh
install_missing clang-tidy-19
cmake --preset release >/dev/null
exec run-clang-tidy-19 -quiet -p build/release "${1:-/(dsl|codegen|client|server)/}"
