#!/usr/bin/env bash
# pack.sh OUT.tar.xz [BUILD]: packs what run.sh needs into a folder kiln-gpu, for a machine that has a GPU and nothing
# of ours: it needs a C library no older than this machine's, and python3 with NumPy (PyTorch for --bench).
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
out=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${2:-$root/build/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/kiln-gpu
mkdir -p "$folder/bin" "$folder/examples"

for program in bin/kiln bin/kilnd bin/kiln-worker bin/kiln-quickstart bin/kiln-tune bin/kiln-runner \
  bin/bench-launch bin/bench-gpu-latency bin/gpu-compile bin/bench-autotune \
  tests/codegen/codegen_tests tests/kernels/kernels_tests tests/client/gpu/gpu_device_tests \
  tests/client/graph/client_graph_tests; do
  [ -x "$build/$program" ] || { echo "pack.sh: $build/$program is not built" >&2; exit 1; }
  strip -o "$folder/bin/${program##*/}" "$build/$program"
done
# All libraries but the C library's own, which must be the machine's. They are large and hardly ever change: packed once.
libraries=$(for program in "$build"/bin/{kiln,kilnd,kiln-worker,kiln-tune} "$build/tests/codegen/codegen_tests"; do
  ldd "$program" | awk '$2 == "=>" {print $3}'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so')
cache=$build/gpu-pack-$(cat $libraries | sha256sum | cut -c1-16).xz
if [ ! -e "$cache" ]; then
  mkdir "$folder/lib"
  for library in $libraries; do strip --strip-unneeded -o "$folder/lib/${library##*/}" "$library"; done
  # Without the archive's end, two blocks of zeros, so that the rest may follow; xz takes streams one after the other.
  tar -b1 -C "$work" -c kiln-gpu/lib | head -c -1024 | xz -T0 -9 >"$cache.new"
  mv "$cache.new" "$cache"
  rm -r "$folder/lib"
fi
cp "$root"/tests/gpu/*.py "$root/tests/gpu/run.sh" "$root"/tests/bench/autotune_cuda.jsonl "$folder/"
cp "$root"/dsl/examples/*.kiln "$folder/examples/"
{ cat "$cache"; tar -C "$work" -c kiln-gpu | xz -T0 -9; } >"$out"
echo "$out: $(($(stat -c %s "$out") >> 20)) MiB"
