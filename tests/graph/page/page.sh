#!/usr/bin/env bash
# page.sh KILN: clicks on a page of `kiln graph draw`, where there are a browser, Node.js and Graphviz.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
for program in "$browser" node dot; do
  command -v "$program" >/dev/null || { echo "skipped: there is no ${program:-browser}"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" graph draw "$here/../../../dsl/graph/examples/mlp_step.kg" -o "$work/page.html"
node "$here/click.mjs" "$browser" "$work/page.html"
