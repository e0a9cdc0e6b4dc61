#!/usr/bin/env bash
# Refuses a protocol change that breaks clients of the main branch (breaking.sh BUF).
# AGAINST=<commit> compares with another state.
set -euo pipefail

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
"$buf" breaking --against "$before"
