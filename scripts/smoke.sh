#!/usr/bin/env bash
# Serves the example models and asks them through a client that shares no code with Weft
# (smoke.sh WEFT GRPCURL). Ends with status 0 only if the answers are right and the server stops cleanly.
set -euo pipefail

weft=${1:?usage: smoke.sh WEFT GRPCURL}
grpcurl=${2:?usage: smoke.sh WEFT GRPCURL}
log=$(mktemp)
server=

finish() {
  status=$?
  if [[ -n $server ]]; then
    kill -KILL "$server" 2>/dev/null || true
  fi
  if ((status != 0)); then
    echo "smoke: failed; the server's log:" >&2
    cat "$log" >&2
  fi
  rm -f "$log"
}
trap finish EXIT

fail() {
  echo "smoke: $*" >&2
  exit 1
}

# free_port prints a port of the loopback address that nobody listens on.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

address=127.0.0.1:$(free_port)
http=127.0.0.1:$(free_port)
"$weft" serve examples/models --listen "$address" --http "$http" --admin-listen "" --state-dir none --lame-duck 0s >"$log" 2>&1 &
server=$!

ask() { # method, request
  "$grpcurl" -plaintext -max-time 5 -d "$2" "$address" "$1" 2>&1
}

for ((attempt = 0; ; attempt++)); do
  kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
  if [[ $(ask grpc.health.v1.Health/Check '{}') == *'"SERVING"'* ]]; then
    break
  fi
  ((attempt < 150)) || fail "not SERVING on $address after 30 s"
  sleep 0.2
done

# action prints the first number that the newest cartpole policy answers to a leaning pole.
action() { # angle in radians
  local answer
  answer=$(ask weft.v1.PredictionService/Predict '{
    "model": {"name": "cartpole"},
    "inputs": {"observation": {"dtype": "DATA_TYPE_FP32", "shape": [1, 4], "floatValues": [0, 0, '"$1"', 0]}}
  }') || fail "Predict: $answer"
  answer=$(tr -d ' \n' <<<"$answer")
  [[ $answer =~ '"version":"'[1-9][0-9]*'"' ]] || fail "no version in $answer"
  [[ $answer =~ '"action":{'[^}]*'"floatValues":['(-?[0-9.e-]+)']' ]] || fail "no action in $answer"
  echo "${BASH_REMATCH[1]}"
}

left=$(action -0.1)
right=$(action 0.1)
[[ $left != "$right" ]] || fail "a pole leaning left and one leaning right get the same action, $left"

answer=$(ask weft.v1.PredictionService/Predict '{"model": {"name": "nonesuch"}}') && fail "an unknown model was served: $answer"
[[ $answer == *NotFound*cartpole* ]] || fail "an unknown model should be NotFound and name the models that exist; got $answer"

kill -TERM "$server"
for ((attempt = 0; ; attempt++)); do
  kill -0 "$server" 2>/dev/null || break
  ((attempt < 100)) || fail "still running 20 s after SIGTERM"
  sleep 0.2
done
wait "$server" || fail "ended with status $? after SIGTERM"
server=
echo "smoke: ok (actions $left and $right from $address)"
