#!/usr/bin/env bash
# fuzz.sh SECONDS OUTDIR CPULIST "TARGET:WORKERS …": fuzz.py on these processors (such as 0-7,12) in the background, where it
# outlives the shell that called it. OUTDIR/TARGET.txt has each target's figures, and OUTDIR/done is there at the end.
# CORPUS in the environment names a folder of more inputs, in a folder a target.
set -euo pipefail
[ $# = 4 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
seconds=$1 out=$2 cpus=$3 targets=$4
mkdir -p "$out"
[ ! -d "$here/lib" ] || export LD_LIBRARY_PATH=$here/lib
setsid taskset -c "$cpus" python3 "$here/fuzz.py" "$seconds" "$out" "$targets" ${CORPUS:+--corpus "$CORPUS"} \
  </dev/null >"$out/output" 2>&1 &
echo "fuzzing: process $!"
