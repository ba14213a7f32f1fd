#!/usr/bin/env bash
# compare.sh CODE-DIGESTS TARGET EMIT: two processes make the same code of the same requests, in whatever order they come.
set -euo pipefail
there=$("$1" "$2" "$3" | sort)
back=$("$1" "$2" "$3" --backwards | sort)
made=$(grep -cE '^\w+ [0-9]+ [0-9a-f]{16}$' <<<"$there" || true)
[ "$made" -gt 30 ] || { echo "too few kernels: $made"; echo "$there" | head -3; exit 1; }
diff <(echo "$there") <(echo "$back")
