#!/bin/sh
# pytorch_reference.sh KILN: pytorch_reference.py by the Python that KILN_PYTORCH names; skipped without one.
if [ -z "${KILN_PYTORCH:-}" ]; then
  echo "skipped: KILN_PYTORCH names no Python that has PyTorch"
  exit 77
fi
exec "$KILN_PYTORCH" -W ignore "$(dirname "$0")/pytorch_reference.py" --rounds "${KILN_PYTORCH_ROUNDS:-30}" "$1"
