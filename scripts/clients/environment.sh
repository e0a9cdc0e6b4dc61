#!/usr/bin/env bash
# Makes a Python environment with what a list names (environment.sh FOLDER REQUIREMENTS), unless FOLDER has it. Where there is
# no Python, or the packages cannot be fetched, it says so and ends with status 3; CLIENTS_REQUIRED=1 makes that a failure.
set -euo pipefail

folder=${1:?usage: environment.sh FOLDER REQUIREMENTS}
list=${2:?usage: environment.sh FOLDER REQUIREMENTS}
if cmp -s "$list" "$folder/made"; then
  exit 0
fi
rm -rf "$folder"
if why=$(python3 -m venv "$folder" 2>&1 && "$folder/bin/python" -m pip install --require-hashes --quiet \
  --disable-pip-version-check -r "$list" 2>&1); then
  cp "$list" "$folder/made"
  exit 0
fi
echo "clients: SKIPPED, since their packages cannot be had (CLIENTS_REQUIRED=1 makes this a failure): $(tail -n 1 <<<"$why")" >&2
if [[ ${CLIENTS_REQUIRED:-} == 1 ]]; then
  exit 1
fi
exit 3
