#!/usr/bin/env bash
# Runs the tests of clients in Python against a real server (run.sh WEFT FOLDER), in environments that are made below FOLDER.
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
"$here/wheel.sh" "$folder/bin/python" "$(dirname "$weft")"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
  "$(dirname "$weft")"/weft_client-*.whl
(cd "$here" && "$folder/bin/mypy" --cache-dir=/dev/null --no-error-summary \
  --config-file ../../examples/python/pyproject.toml -p weft -m typed)
(cd "$here" && "$folder/bin/python" -m unittest)

environment "$folder-tensorflow" "$here/tensorflow/requirements.txt"
(cd "$here/tensorflow" && "$folder-tensorflow/bin/python" -m unittest)
