#!/usr/bin/env bash
# run.sh EXAMPLE_DIR COMMAND…: runs a program of libkiln's in a directory and with a daemon of its own.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-c-XXXXXX)
source "$1/clean_up.sh"
shift
trap 'clean_up "$home" "$home/run"' EXIT
mkdir -m 700 "$home/run"
cd "$home"
HOME="$home" KILN_CACHE_DIR="$home/cache" KILN_RUNTIME_DIR="$home/run" "$@"
