#!/usr/bin/env bash
# Prints the path of a real Envoy, fetched into .weft/deploy the first time. Where it cannot be had it says so and ends with
# status 3; DEPLOY_REQUIRED=1 makes that a failure. ENVOY=PATH names another one.
set -euo pipefail

if [[ -n ${ENVOY:-} ]]; then
  echo "$ENVOY"
  exit
fi
here=$(realpath "$(dirname "$0")")
folder=$(realpath "$here/../..")/.weft/deploy
"$here/../clients/environment.sh" "$folder/python" "$here/requirements.txt" deploy
# The package's own start-up gives its program the right to run; nothing of Python is needed once it is there.
program=$("$folder/python/bin/python" -c 'import envoy, os; print(os.path.join(os.path.dirname(envoy.__file__), "_bin", "envoy"))')
[[ -x $program ]] || chmod +x "$program"
echo "$program"
