#!/usr/bin/env bash
# run.sh TARGET BUILD_DIR REGRESSIONS SECONDS: fuzzes one target (text, binary, frame, entry, graph_text, graph_binary, plan) for a
# while, from its seeds, its regressions, the corpus of the tree and what earlier runs left. KILN_FUZZ_SECONDS in the environment
# says how long instead.
# A finding is kept in BUILD_DIR/findings/TARGET: a crash, a leak, a hang or a broken promise.
set -euo pipefail
target=$1 build=$2 regressions=$3 seconds=${KILN_FUZZ_SECONDS:-$4}

seeds=$build/seeds corpus=$build/corpus/$target findings=$build/findings/$target
mkdir -p "$corpus" "$findings"
inputs=("$corpus" "$seeds/$target" "$regressions")
kept=$(dirname "$0")/corpus/$target
[ ! -d "$kept" ] || inputs+=("$kept")
log=$findings/log
rc=0
mapfile -t flags <"$(dirname "$0")/flags"
"$build/fuzz-$target" -max_total_time="$seconds" "${flags[@]}" -dict="$seeds/$target.dict" \
  -artifact_prefix="$findings/" "${inputs[@]}" >"$log" 2>&1 || rc=$?

if [ "$rc" -ne 0 ]; then
  grep -vE '^#[0-9]+' "$log" | tail -n 60
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  echo "FINDING: fuzz-$target failed (exit status $rc); the whole output is in $log"
  echo "The input:   ${input:-none was written}"
  echo "Again:       $build/fuzz-$target $input"
  echo "Smaller:     $build/fuzz-$target -minimize_crash=1 -exact_artifact_path=small -max_total_time=60 $input"
  echo "When fixed:  put the smallest one into $regressions"
  exit 1
fi
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
# A target that cannot do this much is broken: it would find nothing and say so forever.
[ "${runs:-0}" -ge $((seconds * 5)) ] || { tail -n 20 "$log"; echo "only ${runs:-0} runs in $seconds s"; exit 1; }
echo "fuzz-$target: $runs inputs in $seconds s, $(find "$corpus" -type f | wc -l) in the corpus, no finding"
