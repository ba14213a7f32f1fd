#!/usr/bin/env bash
# pack.sh OUT.tar.xz [BUILD]: packs what fuzz.sh and bar.sh need into a folder kiln-service, for a machine that has more
# processors and nothing of ours: it needs a C library no older than this machine's, and python3. BUILD is a release tree
# with bar_tests and kiln-worker, and with the fuzzers (KILN_FUZZ) below clang/.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
out=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${2:-$root/build/release}")
clang=${KILN_CLANG_BUILD:-$build/clang}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/kiln-service
mkdir -p "$folder/lib" "$folder/fuzz"

# The tests have the paths of their build compiled in: below tree/ all is as below the root, and bar.sh puts it there.
sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" >"$folder/root"
programs=(bin/kiln bin/kilnd bin/kiln-worker bin/kiln-tune tests/server/bar_tests tests/server/fake_worker tests/server/libshifted_clock.so)
for program in "${programs[@]}"; do
  mkdir -p "$folder/tree/build/release/$(dirname "$program")"
  strip --strip-unneeded -o "$folder/tree/build/release/$program" "$build/$program"
done
cp -r --parents "$root/tests/golden" "$work"
mkdir -p "$folder/tree/tests"
mv "$work/$root/tests/golden" "$folder/tree/tests/"

"$clang/fuzz-seeds" "$work/written" "$root"
mkdir "$folder/fuzz/seeds"
targets=(text binary frame entry graph_text graph_binary plan)
for target in "${targets[@]}"; do
  strip -o "$folder/fuzz/fuzz-$target" "$clang/fuzz-$target"
  mv "$work/written/$target" "$folder/fuzz/seeds/"
  mv "$work/written/$target.dict" "$folder/fuzz/"
done
cp -r "$root/tests/fuzz/corpus" "$root/tests/fuzz/regressions" "$root/tests/fuzz/flags" "$folder/fuzz/"

# All libraries but the C library's own, which must be the machine's.
for library in $(for program in "${programs[@]/#/$build/}" "${targets[@]/#/$clang/fuzz-}"; do
  ldd "$program" | awk '$2 == "=>" {print $3}'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so'); do
  strip --strip-unneeded -o "$folder/lib/${library##*/}" "$library"
done
cp "$root"/tests/service/{fuzz.py,fuzz.sh,bar.sh} "$folder/"
tar -C "$work" -c kiln-service | xz -T0 -6 >"$out"
echo "$out: $(($(stat -c %s "$out") >> 20)) MiB"
