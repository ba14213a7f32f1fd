#!/usr/bin/env bash
# page.sh KILN: clicks on a page of `kiln graph draw`, where there are a browser, Node.js and Graphviz.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || command -v chromium-headless-shell || true)
for program in "$browser" node dot; do
  command -v "$program" >/dev/null || { echo "skipped: there is no ${program:-browser}"; exit 77; }
done
work=$(mktemp -d)
export KILN_CACHE_DIR=$work/cache KILN_RUNTIME_DIR=$work/run
mkdir -m 700 "$KILN_RUNTIME_DIR"
trap '"$1" stop >/dev/null || true; rm -rf "$work"' EXIT
"$1" graph draw "$here/../../../dsl/graph/examples/mlp_step.kg" -o "$work/page.html" --target interp
node "$here/click.mjs" "$browser" "$work/page.html"
