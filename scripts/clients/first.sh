#!/usr/bin/env bash
# Says how long a first answer takes from nothing but the binary and the wheel (first.sh WEFT WHEEL): an environment, what the
# wheel needs, a server of the example models, and one request. pip takes what it has in its cache from there.
set -euo pipefail

weft=$(realpath "${1:?usage: first.sh WEFT WHEEL}")
wheel=$(realpath "${2:?usage: first.sh WEFT WHEEL}")
cd "$(dirname "$0")"
began=$EPOCHREALTIME
seconds() { LC_ALL=C awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN {printf "%.1f s", to - from}'; }

folder=$(mktemp -d)
server=
trap '[[ -z $server ]] || { kill "$server"; wait "$server"; }; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
awk '/^[a-z]/ {wanted = /^(googleapis-common-protos|grpcio|numpy|protobuf|typing-extensions)==/} wanted' requirements.txt \
  >"$folder/requirements.txt"
pip=("$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --require-hashes -r "$folder/requirements.txt"
"${pip[@]}" install --no-index "$wheel"
installed=$(seconds)
"$weft" serve --listen "unix:$folder/weft.sock" --http '' --admin-listen '' --state-dir none --lame-duck 0s ../../examples/models \
  2>"$folder/said" &
server=$!
until grep -q 'event=ready ' "$folder/said"; do
  kill -0 "$server" 2>/dev/null || { cat "$folder/said" >&2; server=; exit 1; }
  sleep 0.02
done
serves=$(seconds)
"$folder/venv/bin/python" - "unix:$folder/weft.sock" <<'END'
import sys

import weft

with weft.Client(sys.argv[1]) as client:
    action = client.predict("cartpole", {"observation": [[0.0, 0.1, 0.05, -0.2]]}, timeout=5)["action"]
assert action.shape == (1, 1), action
END
echo "a first answer: installed after $installed, a server after $serves, answered after $(seconds)"
