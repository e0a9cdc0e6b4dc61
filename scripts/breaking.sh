#!/usr/bin/env bash
# Refuses a protocol change that breaks clients of the main branch (breaking.sh BUF).
# AGAINST=<commit> compares with another state.
set -euo pipefail

# Changes that were decided on, as buf tells of them without line and column. When the main branch has such a change, buf is silent of
# it, and this script says that its line can go.
decided=(
)

buf=${1:?usage: breaking.sh BUF}
against=${AGAINST:-}
if [[ -z $against ]]; then
  for branch in origin/main main; do
    if git rev-parse --quiet --verify "$branch^{commit}" >/dev/null; then
      against=$branch
      break
    fi
  done
fi
if [[ -z $against ]] || ! git cat-file -e "$against:proto/weft" 2>/dev/null; then
  echo "breaking: skipped, there is no protocol yet at ${against:-a main branch}"
  exit 0
fi
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git archive "$against" buf.yaml proto | tar -x -C "$before"
status=0
"$buf" breaking --against "$before" >"$before/complaints" || status=$?
if [[ $status != 0 && ! -s $before/complaints ]]; then
  exit "$status" # it did not compare at all
fi
sed -E 's/^([^:]+):[0-9]+:[0-9]+:/\1:/' "$before/complaints" >"$before/told"
for change in "${decided[@]}"; do
  grep -qxF -- "$change" "$before/told" || echo "breaking: $against has this change, so that its line in scripts/breaking.sh can go: $change"
done
printf '%s\n' "${decided[@]}" >"$before/decided"
if grep -vxF -f "$before/decided" "$before/told"; then
  exit 1
fi
