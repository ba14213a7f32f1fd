#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests through ctest. Arguments go to ctest, for example -R dsl.
#   tests/run.sh [--preset release|debug|asan|tsan] [ctest arguments…]
#   tests/run.sh --soak [googletest filter]     the daemon's bar with its full counts: about an hour, half of it the soak
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/packages.sh

preset=release soak=
if [ "${1:-}" = --soak ]; then
  soak=${2:-*}
  set --
fi
if [ "${1:-}" = --preset ]; then
  preset=$2
  shift 2
fi
install_missing $KILN_BUILD_PACKAGES $KILN_TEST_PACKAGES
# The fuzzers bring their own sanitizers: once is enough.
fuzz=ON
case $preset in asan | tsan) fuzz=OFF ;; esac
cmake --preset "$preset" -DKILN_BUILD_TESTS=ON -DKILN_FUZZ=$fuzz >/dev/null
if [ -n "$soak" ]; then
  cmake --build --preset "$preset" --target bar_tests -- --quiet
  KILN_SOAK=${KILN_SOAK:-1} exec "build/$preset/tests/server/bar_tests" --gtest_filter="$soak"
fi
echo "Building ($preset)…"
cmake --build --preset "$preset" -- --quiet
ctest --preset "$preset" --output-on-failure -j "$(nproc)" "$@"
