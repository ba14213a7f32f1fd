#!/usr/bin/env bash
# bar.sh OUTFILE [NUMBER=SECONDS …]: statements of the daemon's bar with their full counts, each with its own limit of time;
# without any those whose bounds are times, and what stands beside them, within 9 minutes. The output goes to OUTFILE,
# figures and results are printed. In pack.sh's folder, or in a tree whose release build has bar_tests.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
out=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
if [ -e "$here/root" ]; then
  # The programs look for each other where they were built.
  root=$(cat "$here/root")
  [ "${root#/}" != "$root" ] || exit 2
  (cd "$here/tree" && find . -type f) | while read -r file; do
    [ -e "$root/$file" ] || install -D "$here/tree/$file" "$root/$file"
  done
  export LD_LIBRARY_PATH=$here/lib
fi
[ $# -gt 0 ] || set -- 13=60 16=45 17=30 33=40 34=30 08=120 14=30 15=30 31=30 18=60 12=45
: >"$out"
status=0
for part; do
  number=${part%=*} seconds=${part##*=}
  rc=0
  KILN_SOAK=${KILN_SOAK:-1} timeout -k 5 "$seconds" "$root/build/release/tests/server/bar_tests" \
    --gtest_filter="*.Statement$number*" >"$out.part" 2>&1 || rc=$?
  cat "$out.part" >>"$out"
  grep -E '^\[ +(FIGURE|OK|FAILED|SKIPPED) ' "$out.part" || true
  [ $rc = 0 ] || grep -A6 ': Failure' "$out.part" | head -n 21 || true
  [ $rc = 0 ] || { status=1; echo "$number: exit status $rc (124: its time was up)"; }
done
rm -f "$out.part"
exit $status
