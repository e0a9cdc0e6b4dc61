#!/usr/bin/env bash
# Tests the live page in a headless browser; OUT gets screenshots. Where Node or Chromium are missing it says so and ends well;
# PAGE_REQUIRED=1 makes that a failure.
#   run.sh --fixture OUT  against made-up data
#   run.sh --all OUT      that, and with servers: the demo's, one that restarts and one with much load (bin/weft, bin/demo);
#                         for PAGE_HIDDEN seconds (5) the page is out of sight
#   run.sh URL OUT        against a server whose page is at URL (it ends in /live/)
set -euo pipefail

target=${1:?usage: run.sh --fixture|--all|URL OUT}
out=${2:?usage: run.sh --fixture|--all|URL OUT}
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")"

skip() {
  echo "page: SKIPPED, $1" >&2
  exit "${PAGE_REQUIRED:-0}"
}
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || skip "node is older than 20"
browser=
for candidate in "${CHROMIUM:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
  if [[ -z $browser && -x $candidate ]]; then browser=$candidate; fi
done
[[ -n $browser ]] || skip "there is no Chromium (CHROMIUM names one that is elsewhere)"
if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
  npm ci --ignore-scripts --no-audit --no-fund --silent || skip "the packages of package-lock.json cannot be had"
  touch node_modules/.package-lock.json
fi

export CHROMIUM=$browser PAGE_OUT=$out
files=(assets.test.mjs check.mjs)
case $target in
  --fixture) ;;
  --all) files+=(demo.mjs docs.mjs server.mjs) ;;
  *) export PAGE_URL=$target ;;
esac
# Most of the time they wait, so that two at once take half of it.
exec node --test --test-concurrency=2 --test-timeout=$((600000 + 1000 * ${PAGE_HIDDEN:-5})) "${files[@]}"
