#!/usr/bin/env bash
# Makes a Python environment with what a list names (environment.sh FOLDER REQUIREMENTS [NAME]), unless FOLDER has it. Where
# there is no Python, or the packages cannot be fetched, it says so and ends with status 3; NAME_REQUIRED=1 makes that a
# failure. NAME is the one of the tests that need it: clients, unless it is given.
set -euo pipefail

folder=${1:?usage: environment.sh FOLDER REQUIREMENTS [NAME]}
list=${2:?usage: environment.sh FOLDER REQUIREMENTS [NAME]}
name=${3:-clients}
required=${name^^}_REQUIRED
# Checks that run at the same time make it once.
if command -v flock >/dev/null; then
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock 9
fi
if cmp -s "$list" "$folder/made"; then
  exit 0
fi
rm -rf "$folder"
if why=$(python3 -m venv "$folder" 2>&1 && "$folder/bin/python" -m pip install --require-hashes --quiet \
  --disable-pip-version-check -r "$list" 2>&1); then
  cp "$list" "$folder/made"
  exit 0
fi
echo "$name: SKIPPED, since their packages cannot be had ($required=1 makes this a failure): $(tail -n 1 <<<"$why")" >&2
if [[ ${!required:-} == 1 ]]; then
  exit 1
fi
exit 3
