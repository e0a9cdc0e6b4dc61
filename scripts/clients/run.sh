#!/usr/bin/env bash
# Runs the tests of clients in Python against a real server (run.sh WEFT PYTHON), with the Python of an environment that
# has what requirements.txt names.
set -euo pipefail

weft=$(realpath "${1:?usage: run.sh WEFT PYTHON}")
python=$(realpath --no-symlinks "${2:?usage: run.sh WEFT PYTHON}")
cd "$(dirname "$0")"
WEFT=$weft PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest "${@:3}"
