#!/usr/bin/env bash
# serve.sh KILN: `kiln serve` runs a daemon in the foreground with kilnd's flags until it is told to stop.
set -euo pipefail
home=$(mktemp -d /tmp/kiln-serve-XXXXXX)
daemon=
trap 'kill "$daemon" 2>/dev/null || true; wait; rm -rf "$home"' EXIT
export XDG_CACHE_HOME="$home/cache" KILN_RUNTIME_DIR="$home/run"
mkdir -m 700 "$home/run"
"$1" ping >/dev/null 2>"$home/no-daemon" && { echo "ping found a daemon that should not be"; exit 1; }
[ "$(wc -l <"$home/no-daemon")" -eq 1 ]
"$1" serve --workers 1 --idle-timeout 60 >"$home/log" 2>&1 &
daemon=$!
for _ in $(seq 100); do "$1" ping >"$home/ping" 2>/dev/null && break; sleep 0.05; done
grep -q "^pid *$daemon\$" "$home/ping"
"$1" stats --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["workers_max"] == 1'
"$1" stop
wait "$daemon"
