#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests through ctest. Arguments go to ctest, for example -R dsl.
#   tests/run.sh [--preset release|debug|asan|tsan] [ctest arguments…]
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/packages.sh

preset=release
if [ "${1:-}" = --preset ]; then
  preset=$2
  shift 2
fi
install_missing $KILN_BUILD_PACKAGES $KILN_TEST_PACKAGES
# The fuzzers bring their own sanitizers: once is enough.
fuzz=ON
case $preset in asan | tsan) fuzz=OFF ;; esac
cmake --preset "$preset" -DKILN_BUILD_TESTS=ON -DKILN_FUZZ=$fuzz >/dev/null
echo "Building ($preset)…"
cmake --build --preset "$preset" -- --quiet
ctest --preset "$preset" --output-on-failure -j "$(nproc)" "$@"
