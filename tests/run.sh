#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests through ctest. Arguments go to ctest, for example -R dsl.
#   tests/run.sh [--preset release|debug|asan|tsan] [ctest arguments…]
#   tests/run.sh --long [ctest arguments…]      with the long lists of tests/README.md: hours; the arguments choose, for example -L fuzz
#   tests/run.sh --soak [googletest filter]     the daemon's bar with its full counts: about 45 minutes, 30 of them the soak;
#                                               without a filter also the fuzzers, for KILN_FUZZ_SECONDS each (8 hours)
#   tests/run.sh --models [NAME…]               torch.compile(backend="kiln"): its tests, the wheels, and models of timm, transformers and torchvision
#                                               (all: hours). Makes a venv of its own; KILN_MODELS_PYTHON names another Python with them
#   tests/run.sh --package                      the Debian package in a bare Debian 12; needs root and a mirror
#   tests/run.sh --fresh [quickstart|tests]     ./quickstart.sh and tests/run.sh in a bare Debian 12 with a clone of HEAD; needs the same
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/packages.sh
. cmake/build.sh

# Tests that were left out, in whole or in part, for what this machine does not let them do: that they passed says nothing.
say_left_out() {
  awk '
    /: Skipped$/ { getline; reasons = reasons $0 "\n" }
    /^\[ LEFT OUT \]/ { reasons = reasons $0 "\n" }
    /^<end of output>/ {
      if (reasons ~ /user namespaces|no namespaces/) ++left_out["user namespaces"]
      else if (reasons ~ /Landlock/) ++left_out["Landlock"]
      else if (reasons ~ /root|mounting/) ++left_out["root"]
      reasons = ""
    }
    END { for (lack in left_out) printf "Left out for lack of %s, in whole or in part: %d tests\n", lack, left_out[lack] }
  ' "build/$preset/Testing/Temporary/LastTest.log"
}

if [ "${1:-}" = --fresh ]; then
  install_missing debootstrap git
  exec tests/package/fresh.sh "${@:2}"
fi
preset=release soak= package= fuzz=OFF
if [ "${1:-}" = --soak ]; then
  soak=${2:-*} fuzz=ON
  set --
fi
if [ "${1:-}" = --models ]; then
  install_missing $KILN_BUILD_PACKAGES $KILN_WHEEL_PACKAGES python3-venv
  exec tests/models/run.sh "${@:2}"
fi
if [ "${1:-}" = --package ]; then
  package=1
  set --
fi
if [ "${1:-}" = --long ]; then
  export KILN_TEST_ALL=1 KILN_KERNELS_FULL=1 KILN_MATH_EXHAUSTIVE=1 KILN_AUTOTUNE_FULL=1 KILN_TEST_GROWTH=1
  # Beside PyTorch where this Python has it, or one that is named.
  [ -n "${KILN_PYTORCH:-}" ] || ! python3 -c 'import torch' 2>/dev/null || export KILN_PYTORCH=python3
  export KILN_RANDOM_KERNELS=${KILN_RANDOM_KERNELS:-1700} KILN_FUZZ_SECONDS=${KILN_FUZZ_SECONDS:-600}
  fuzz=ON
  set -- --timeout 7200 "${@:2}"
fi
if [ "${1:-}" = --preset ]; then
  preset=$2
  shift 2
fi
install_missing $KILN_BUILD_PACKAGES $KILN_TEST_PACKAGES ${package:+debootstrap}
# A second build, by Clang, and a large part of the time of all. The fuzzers bring their own sanitizers: once is enough.
case $preset in asan | tsan) fuzz=OFF ;; esac
configure "$preset" -DKILN_BUILD_TESTS=ON -DKILN_FUZZ=$fuzz >/dev/null
if [ -n "$soak" ]; then
  build_targets "$preset" bar_tests client_tests
  export KILN_SOAK=${KILN_SOAK:-1}
  rc=0
  "build/$preset/tests/server/bar_tests" --gtest_filter="$soak" || rc=1
  if [ "$soak" = "*" ]; then
    "build/$preset/tests/client/client_tests" --gtest_filter='*TheFirstResultWaits*:*SixtyFourThreads*' || rc=1
    build_targets "$preset"  # the fuzzers are a build of their own, by Clang
    KILN_FUZZ_SECONDS=${KILN_FUZZ_SECONDS:-28800} ctest --preset "$preset" --output-on-failure -j "$(nproc)" -L fuzz || rc=1
  fi
  exit $rc
fi
echo "Building ($preset)…"
if [ -n "$package" ]; then
  build_targets "$preset" kiln kilnd kiln-worker kiln-tune kiln-runner kiln_pages
  tests/package/systemd.sh "build/$preset" || [ $? = 77 ]
  exec tests/package/chroot.sh "build/$preset"
fi
build_targets "$preset"
# One more than there are cores: many tests of the daemon wait.
rc=0
ctest --preset "$preset" --output-on-failure -j $(($(nproc) + 1)) "$@" || rc=$?
say_left_out
exit $rc
