#!/usr/bin/env bash
# Fails when a function is reachable from no program and no test, of the laboratory too, which is a module of its own
# (deadcode.sh DEADCODE).
set -euo pipefail

deadcode=${1:?usage: deadcode.sh DEADCODE}
workspace=$(mktemp -d)
trap 'rm -rf "$workspace"' EXIT
printf 'go %s\nuse %s\nuse %s\n' "$(go list -m -f '{{.GoVersion}}')" "$PWD" "$PWD/tools/lab" >"$workspace/go.work"
found=$(GOWORK=$workspace/go.work "$deadcode" -test ./... ./tools/lab/...)
if [[ -n $found ]]; then
  printf '%s\n' "$found" >&2
  exit 1
fi
