#!/usr/bin/env bash
# wheel.sh PYTHON WHEELS: installs the wheels of a folder into a fresh venv that sees the PyTorch of PYTHON, without network, and runs
# wheel_program.py there with nothing in the environment but a home.
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
