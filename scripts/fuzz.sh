#!/usr/bin/env bash
# Runs every fuzz target of the module, each for the time given (fuzz.sh 10s) or for so many inputs (fuzz.sh 2000x). On a busy
# machine only the latter ends for certain: go test takes a time that ends while an input is tried for a failure.
set -euo pipefail

budget=${1:?usage: fuzz.sh TIME}

# go test -list prints a package's targets, then a line "ok <package> ...".
targets=$(go test -list '^Fuzz' ./... | awk '
  /^Fuzz/ { names[n++] = $1 }
  $1 == "ok" { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }')
if [[ -z $targets ]]; then
  echo "fuzz: no fuzz target was found" >&2
  exit 1
fi
while read -r package name; do
  echo "fuzz: $package $name"
  # Minimizing an interesting input can take a minute, in which nothing new is tried.
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$budget" -fuzzminimizetime 1x "$package" </dev/null
done <<<"$targets"
