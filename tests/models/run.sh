#!/usr/bin/env bash
# run.sh [NAME…]: builds what PyTorch needs of Kiln, then the tests of torch.compile(backend="kiln"), the wheels, and the scoreboard of
# models, or of those named, with rows in build/models.jsonl. By the Python that KILN_MODELS_PYTHON names, else by a venv in build/models-venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
. cmake/packages.sh
. cmake/build.sh
python=${KILN_MODELS_PYTHON:-}
if [ -z "$python" ]; then
  [ -x build/models-venv/bin/python ] || python3 -m venv build/models-venv
  build/models-venv/bin/pip install -q torch torchvision timm transformers setuptools
  python=build/models-venv/bin/python
fi
configure release >/dev/null
build_targets release kiln_c kilnd kiln-worker
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
# As pip installs it: the packages, and the name of the backend.
cp -r client/python/kiln client/python/kiln_torch/kiln_torch "$site"
mkdir "$site/kiln_torch-0.1.0.dist-info"
printf '[torch_dynamo_backends]\nkiln = kiln_torch:backend\n' >"$site/kiln_torch-0.1.0.dist-info/entry_points.txt"
printf 'Metadata-Version: 2.1\nName: kiln-torch\nVersion: 0.1.0\n' >"$site/kiln_torch-0.1.0.dist-info/METADATA"
export PYTHONPATH=$site KILN_LIBRARY=$PWD/build/release/lib/libkiln.so
if [ $# -eq 0 ]; then
  "$python" -W ignore tests/models/torch_test.py
  "$python" -W ignore tests/models/torch_faults_test.py
  build_targets release kiln_wheels
  tests/models/wheel.sh "$python" build/release/wheels
fi
"$python" tests/models/scoreboard.py build/models.jsonl "$@"
