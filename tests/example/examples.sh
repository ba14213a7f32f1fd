#!/usr/bin/env bash
# examples.sh KILN SOURCE_DIR: dsl/examples is what the C++ kernel library prints, and its matmul compiles as it stands.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-examples-XXXXXX)
source "$(dirname "$0")/clean_up.sh"
trap 'clean_up "$home" "$home/run"' EXIT
"$1" export-library "$home/library"
diff -r "$home/library" "$2/dsl/examples"
export XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run"
mkdir -m 700 "$home/run"
cd "$2"
"$1" compile dsl/examples/matmul.kiln --target cpu -o "$home/mm.so"
nm -D "$home/mm.so" | grep ' T kiln_entry' >/dev/null
grep -q 'kiln_entry' "$home/mm.h"
