#!/usr/bin/env bash
# Runs the tests of clients in Python against a real server (run.sh WEFT PYTHON), with the Python of an environment that
# has what requirements.txt names, and that gets the wheel of ours that lies beside WEFT.
set -euo pipefail

weft=$(realpath "${1:?usage: run.sh WEFT PYTHON}")
python=$(realpath --no-symlinks "${2:?usage: run.sh WEFT PYTHON}")
cd "$(dirname "$0")"
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
  "$(dirname "$weft")"/weft_client-*.whl
WEFT=$weft PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest "${@:3}"
