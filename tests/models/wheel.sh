#!/usr/bin/env bash
# wheel.sh PYTHON WHEELS: installs the wheels of a folder into a fresh venv that sees the PyTorch of PYTHON, without network, and runs
# wheel_program.py there with nothing in the environment but a home; then the program and the last command of docs/use/models.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../example/clean_up.sh"
home=$(mktemp -d /tmp/kiln-wheel-XXXXXX)
trap 'clean_up "$home" "$home/run/kiln"' EXIT
mkdir -m 700 "$home/run"
"$1" -m venv "$home/venv"
"$1" -c 'import site; print(site.getsitepackages()[0])' >"$("$home/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
"$home/venv/bin/pip" install -q --no-deps --no-index --disable-pip-version-check "$2"/kiln-*.whl "$2"/kiln_torch-*.whl
cd "$home"
env -i HOME="$home" XDG_RUNTIME_DIR="$home/run" "$home/venv/bin/python" -W ignore "$here/wheel_program.py"
sed -n '/^```python$/,/^```$/p' "$here/../../docs/use/models.md" | grep -v '^```' >model.py
command=$(grep -o 'kiln run model.pt2 .*' "$here/../../docs/use/models.md" | head -1)
env -i HOME="$home" XDG_RUNTIME_DIR="$home/run" "$home/venv/bin/python" -W ignore model.py
env -i HOME="$home" XDG_RUNTIME_DIR="$home/run" bash -c "exec $home/venv/bin/$command"
"$home/venv/bin/python" -c 'import numpy as np; np.testing.assert_allclose(np.load("y.npy"), np.load("expected.npy"), rtol=1e-4, atol=1e-5)'
echo "$command: as PyTorch computes it"
