#!/usr/bin/env bash
# Runs the tests of clients in Python against a real server (run.sh WEFT FOLDER), in environments that are made below FOLDER,
# those of the examples in JavaScript, C++ and Java, and the programs of docs/how-to/clients.md.
set -euo pipefail

weft=$(realpath "${1:?usage: run.sh WEFT FOLDER}")
folder=${2:?usage: run.sh WEFT FOLDER}
mkdir -p "$(dirname "$folder")"
folder=$(realpath "$folder")
here=$(realpath "$(dirname "$0")")
export WEFT=$weft PYTHONDONTWRITEBYTECODE=1

# environment makes one, or ends this program: well where it cannot be made and need not.
environment() { # folder, list
  "$here/environment.sh" "$1" "$2" && return
  status=$?
  exit $((status == 3 ? 0 : status))
}

environment "$folder" "$here/requirements.txt"
mkdir -p "$folder-wheel"
"$here/wheel.sh" "$folder/bin/python" "$folder-wheel"
wheel=$(realpath "$folder-wheel"/weftserve_client-*.whl)
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"
"$here/first.sh" "$weft" "$wheel"
(cd "$here" && "$folder/bin/mypy" --cache-dir=/dev/null --no-error-summary \
  --config-file ../../examples/python/pyproject.toml -p weft -m typed)
(cd "$here" && "$folder/bin/python" -m unittest)

# The page for policies in Python, by a Python that has torch, or by ours, which leaves the exports out. torch is no package
# of ours: with CUDA it takes gigabytes. WEFT_TORCH_PYTHON names a Python with what step 1 of the page installs.
torch=${WEFT_TORCH_PYTHON:-python3}
if ! why=$("$torch" -c 'import torch, onnxscript, onnx, gymnasium, grpc, google.rpc' 2>&1); then
  if [[ -n ${WEFT_TORCH_PYTHON:-} ]]; then
    echo "clients: $torch cannot export policies: $(tail -n 1 <<<"$why"); it needs what docs/quickstart/python-policy.md installs" >&2
    exit 1
  fi
  torch=$folder/bin/python
fi
(cd "$here/policy" && PYTHONPATH=$wheel "$torch" -m unittest)

environment "$folder-tensorflow" "$here/tensorflow/requirements.txt"
(cd "$here/tensorflow" && "$folder-tensorflow/bin/python" -m unittest)

environment "$folder-kserve" "$here/kserve/requirements.txt"
(cd "$here/kserve" && "$folder-kserve/bin/python" -m unittest)
