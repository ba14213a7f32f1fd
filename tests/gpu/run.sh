#!/usr/bin/env bash
# The suite for a machine with a GPU: in the folder that pack.sh packed, or in a tree that is built.
#
#   run.sh [FILTER]           the differential tests and the kernel library on the device, `kiln run` end to end
#   run.sh --sanitizer [FILTER]   the kernel library's small shapes under memcheck, racecheck and synccheck
#   run.sh --math             the elementary functions for all f32 arguments, division beside wgmma (needs PyTorch)
#   run.sh --bench [ARGUMENTS]    what a launch costs, how long a caller waits for a kernel, the quickstart's table, times
#                             beside cuBLAS, Triton, Inductor and SDPA; arguments go to bench.py
#   run.sh --all              the tests, --sanitizer, --math and --bench, one after the other
#
#   --results DIR   where logs and tables go; default: results here, or gpu-results in the build tree
#   --build DIR     the build tree, where this is none of pack.sh's folders
#   --target T      compile for T instead of the device's own, such as cuda:sm_80
#   --jobs N, --deadline S   processes at once; seconds after which the tests that are left are not run
#   --part I/N      the I-th of N parts of the tests
#   --dry-run       without a GPU: compiles all, runs nothing
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results= mode=tests filter='*' tests=() dry=()
while [ $# -gt 0 ]; do
  case $1 in
    --results) results=$2; shift ;;
    --build) KILN_GPU_BUILD=$(cd "$2" && pwd); export KILN_GPU_BUILD; shift ;;
    --target) export KILN_TEST_CUDA=$2; shift ;;
    --jobs | --deadline | --part) tests+=("$1" "$2"); shift ;;
    --dry-run) dry=(--dry-run) ;;
    --sanitizer) mode=sanitizer ;;
    --math) mode=math ;;
    --all) mode=all ;;
    --bench) mode=bench; shift; break ;;
    --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit ;;
    -*) echo "run.sh: unknown option $1; --help lists them" >&2; exit 2 ;;
    *) filter=$1 ;;
  esac
  shift
done
command -v python3 >/dev/null || { echo "run.sh: python3 is not here" >&2; exit 2; }
if [ -z "$results" ]; then
  results=$here/results
  [ -d "$here/bin" ] || results=${KILN_GPU_BUILD:=$here/../../build/release}/gpu-results
fi
mkdir -p "$results"
results=$(cd "$results" && pwd)
cd "$here"

run_tests() {
  local log=$results/$1.log
  shift
  echo "== ${log##*/}"
  python3 run_tests.py --log "$log" "${dry[@]}" "${tests[@]}" "$@" || status=1
}

all_tests() {
  run_tests tests "--filter=$filter" gpu_device_tests kernels_tests codegen_tests client_graph_tests
  [ "$filter" = '*' ] || return 0
  echo "== end to end"
  python3 end_to_end.py "${dry[@]}" || status=1
}

sanitizers() {
  local small=$filter
  [ "$small" != '*' ] || small='-*RealShapes*:*LayersOfDlrm:*IsUniform'
  for tool in memcheck racecheck synccheck; do
    run_tests "$tool" --sanitizer "$tool" "--filter=$small" kernels_tests
  done
}

math() {
  python3 math_exhaustive.py || status=1
}

bench() {
  if [ ${#dry[@]} = 0 ]; then
    echo "== launches"
    python3 tools.py bench-launch || status=1
    echo "== what a caller waits for"
    python3 tools.py bench-gpu-latency --csv "$results/latency.csv" || status=1
    echo "== cold and warm requests"
    python3 tools.py kiln-quickstart --gpu || status=1
  fi
  echo "== beside the peers"
  python3 bench.py --results "$results" "${dry[@]}" "$@" || status=1
}

status=0
case $mode in
  tests) all_tests ;;
  sanitizer) sanitizers ;;
  math) math ;;
  bench) bench "$@" ;;
  all)
    all_tests
    sanitizers
    math
    bench
    ;;
esac
exit $status
