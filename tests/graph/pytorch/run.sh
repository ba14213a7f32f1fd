#!/bin/sh
# run.sh PROGRAM: the comparisons with PyTorch, by the Python that KILN_PYTORCH names; skipped without one.
if [ -z "${KILN_PYTORCH:-}" ]; then
  echo "skipped: KILN_PYTORCH names no Python that has PyTorch"
  exit 77
fi
here="$(dirname "$0")"
rounds="${KILN_PYTORCH_ROUNDS:-30}"
"$KILN_PYTORCH" -W ignore "$here/ops.py" --rounds "$rounds" "$1" || exit
"$KILN_PYTORCH" -W ignore "$here/aten.py" --rounds "$rounds" "$1" || exit
if "$KILN_PYTORCH" -c "import expecttest" 2> /dev/null; then
  "$KILN_PYTORCH" -W ignore "$here/opinfo.py" --most 4 "$1" || exit
fi
models="$(mktemp -d)" || exit
trap 'rm -rf "$models"' EXIT
"$KILN_PYTORCH" -W ignore "$here/export_models.py" "$1" "$models"
