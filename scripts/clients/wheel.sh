#!/usr/bin/env bash
# Builds the wheel of the Python client (wheel.sh PYTHON FOLDER): the package in examples/python, and what the protocol's
# files become. PYTHON has what requirements.txt names; FOLDER gets the wheel, and nothing else of that name stays there.
set -euo pipefail

python=$(realpath --no-symlinks "${1:?usage: wheel.sh PYTHON FOLDER}")
into=$(realpath "${2:?usage: wheel.sh PYTHON FOLDER}")
cd "$(dirname "$0")/../.."
build=.weft/wheel
rm -rf "$build" "$into"/weftserve_client-*.whl
mkdir -p "$build"
cp -r examples/python/. LICENSE "$build"
"$python" -m grpc_tools.protoc --proto_path=proto --python_out="$build/src" --pyi_out="$build/src" \
  --grpc_python_out="$build/src" proto/weft/v1/*.proto
touch "$build/src/weft/v1/__init__.py"
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-index --wheel-dir "$into" "./$build"
