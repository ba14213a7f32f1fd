#!/usr/bin/env bash
# examples.sh KILN SOURCE_DIR: dsl/examples is what the C++ kernel library prints, and its matmul compiles as it stands.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-examples-XXXXXX)
trap 'KILN_RUNTIME_DIR="$home/run" "$1" stop >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
"$1" export-library "$home/library"
diff -r "$home/library" "$2/dsl/examples"
export XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run"
mkdir -m 700 "$home/run"
cd "$2"
"$1" compile dsl/examples/matmul.kiln --target cpu -o "$home/mm.so"
nm -D "$home/mm.so" | grep ' T kiln_entry' >/dev/null
grep -q 'kiln_entry' "$home/mm.h"
