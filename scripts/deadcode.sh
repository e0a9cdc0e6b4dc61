#!/usr/bin/env bash
# Fails when a function is reachable from no program and no test (deadcode.sh DEADCODE).
set -euo pipefail

deadcode=${1:?usage: deadcode.sh DEADCODE}
found=$("$deadcode" -test ./...)
if [[ -n $found ]]; then
  printf '%s\n' "$found" >&2
  exit 1
fi
