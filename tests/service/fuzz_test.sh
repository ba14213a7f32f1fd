#!/usr/bin/env bash
# fuzz_test.sh CLANG_BUILD SEEDS: fuzz.py for some seconds, as it runs for hours elsewhere: it counts, ends and keeps what it found new.
set -euo pipefail
build=$(realpath "$1") seeds=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
fuzz=$here/../fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/inputs/seeds"
cp "$fuzz/flags" "$seeds"/{frame,entry}.dict "$work/inputs/"
cp -r "$seeds"/{frame,entry} "$work/inputs/seeds/"
cp -r "$fuzz/corpus" "$fuzz/regressions" "$work/inputs/"
python3 "$here/fuzz.py" 4 "$work/out" "frame:1 entry:1" --programs "$build" --inputs "$work/inputs"
cat "$work"/out/*.txt
grep -q '^0 findings' "$work/out/done"
for target in frame entry; do
  grep -qE "^$target: done, 1 workers, [1-9][0-9]* processor seconds .*, [1-9][0-9]+ runs, .* 0 findings" "$work/out/$target.txt"
done
tar -tf "$work/out/corpus.tar.xz" >"$work/packed"
grep -q /merged/ "$work/packed"
# Inputs that are not there are an error, not an empty run.
! python3 "$here/fuzz.py" 1 "$work/none" "frame:1" --programs "$build" --inputs "$work/no-inputs" 2>/dev/null
