#!/usr/bin/env bash
# Lists the packages whose code starts goroutines. What they import is watched by the race detector, too, while their
# tests run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
grep --recursive --include='*.go' --exclude='*_test.go' --files-with-matches --extended-regexp \
  '^\s*go (func|[a-zA-Z_.]+\()|\.Go\(|AfterFunc\(' gpu internal runtime server sharedsched |
  xargs --max-args=1 dirname | sort --unique | sed 's|^|./|'
