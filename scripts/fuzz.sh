#!/usr/bin/env bash
# Runs every fuzz target of the module, each for the time given (fuzz.sh 10s) or for so many inputs (fuzz.sh 2000x). On a busy
# machine only the latter ends for certain: go test takes a time that ends while an input is tried for a failure.
# fuzz.sh 2000x 4 runs every fourth target, and the next ones after the next commit: each is linked for minutes where
# nothing was built before.
set -euo pipefail

budget=${1:?usage: fuzz.sh TIME [SHARE]} share=${2:-1}

# From the sources: go test -list would link every test program of the module to ask it.
targets=$(grep -Er --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's,/[^/]+:func , ,' | sort || true)
if [[ -z $targets ]]; then
  echo "fuzz: no fuzz target was found" >&2
  exit 1
fi
commits=$(git rev-list --count HEAD)
awk -v share="$share" -v first="$((commits % share))" 'NR % share == first' <<<"$targets" | while read -r package name; do
  echo "fuzz: $package $name"
  # Minimizing an interesting input can take a minute, in which nothing new is tried.
  go test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "$budget" -fuzzminimizetime 1x "$package" </dev/null
done
