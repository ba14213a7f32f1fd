#!/usr/bin/env bash
# installed.sh BUILD_DIR EXAMPLE_DIR: installs Kiln into a prefix of its own and builds the example against it.
set -euo pipefail
work=$(mktemp -d /tmp/kiln-installed-XXXXXX)
source "$2/clean_up.sh"
trap 'clean_up "$work" "$work/run"' EXIT
cmake --install "$1" --prefix "$work/prefix" >"$work/install.log"
cmake -G Ninja -S "$2/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DEXAMPLE_SOURCE="$2/scale_add.cpp" >"$work/configure.log"
cmake --build "$work/build"
export PATH="$work/prefix/bin:$PATH"
"$2/run.sh" "$work/build/consumer"
# The tuner finds its runner, its daemon and the job lists.
export KILN_RUNTIME_DIR="$work/run" KILN_CACHE_DIR="$work/cache" XDG_DATA_HOME="$work/data"
[ -e "$work/prefix/share/kiln/jobs/llama3_8b.jsonl" ]
kiln tune "$work/prefix/share/kiln/jobs/quickstart.jsonl" --frozen --json >"$work/tuned.json"
grep -q '"failed_jobs": 0' "$work/tuned.json"
