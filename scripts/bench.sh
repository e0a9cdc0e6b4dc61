#!/usr/bin/env bash
# Runs the benchmarks that match FILTER, COUNT times each, into .weft/bench/new.txt, and compares them
# with the run before (bench.sh FILTER COUNT BENCHSTAT).
set -euo pipefail

filter=${1:?usage: bench.sh FILTER COUNT BENCHSTAT}
count=${2:?usage: bench.sh FILTER COUNT BENCHSTAT}
benchstat=${3:?usage: bench.sh FILTER COUNT BENCHSTAT}

folder=.weft/bench
mkdir -p "$folder"
{
  echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"
  go test -run '^$' -bench "$filter" -benchmem -count "$count" ./...
} | tee "$folder/running.txt"
if [[ -f $folder/new.txt ]]; then
  mv "$folder/new.txt" "$folder/old.txt"
fi
mv "$folder/running.txt" "$folder/new.txt"
if [[ -f $folder/old.txt ]]; then
  "$benchstat" -ignore commit "$folder/old.txt" "$folder/new.txt"
fi
