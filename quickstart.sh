#!/usr/bin/env bash
# Installs what is missing, builds Kiln, starts a daemon, and compiles and runs the kernel library on this machine's CPU,
# with --gpu on its first GPU: each kernel is checked against a float64 reference, and a table says how fast it compiled,
# was served and ran. A graph, one step of training, is compiled and run on the CPU. Then it builds the rest, and the tuner looks for better configs of some kernels for a minute, which has the
# calibration of this machine in it the first time.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/packages.sh
. cmake/build.sh

install_missing $KILN_BUILD_PACKAGES
configure release -DKILN_BUILD_TESTS=OFF >build.log 2>&1 || { cat build.log >&2; exit 1; }
rm -f build.log
echo "Building (release)…"
build_targets release kilnd kiln-worker kiln-quickstart
build/release/bin/kiln-quickstart "$@"

printf '\nBuilding the command…\n'
build_targets release kiln
printf '\nA graph of tensors, one step of training (dsl/graph/examples/mlp_step.kg), compiled and run…\n'
build/release/bin/kiln graph bench dsl/graph/examples/mlp_step.kg --size batch=256

target=cpu
for argument in "$@"; do
  [ "$argument" != --gpu ] || target=cuda
done
printf '\nBuilding the tuner, manual pages and completions…\n'
build_targets release
printf '\nTuning (autotune/jobs/quickstart.jsonl)…\n'
build/release/bin/kiln tune autotune/jobs/quickstart.jsonl --targets "$target" --budget 60s
cat <<'NEXT'

The programs are in build/release/bin. README.md goes on with them there, or installed:
    export PATH="$PWD/build/release/bin:$PATH"
    cmake --install build/release --prefix ~/.local
NEXT
