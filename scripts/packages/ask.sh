# shellcheck shell=bash disable=SC2154
# Functions for scripts that ask a server. They need $work, a folder, whose file log is the log of the process $server.
server=

say() { echo "packages: $*"; }

fail() {
  echo "packages: $*" >&2
  exit 1
}

# cleanup ends what else a script has begun.
cleanup() { :; }

# finish ends the server, and shows its log after a failure.
finish() {
  local status=$?
  cleanup
  if [[ -n $server ]]; then
    kill -KILL "$server" 2>/dev/null || true
  fi
  if ((status != 0)) && [[ -s $work/log ]]; then
    echo "packages: failed; the log:" >&2
    cat "$work/log" >&2
  fi
  rm -rf "$work"
}
trap finish EXIT

# free_port prints a port of the loopback address that nobody listens on.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

# ask prints a server's answer over HTTP: GET, or POST of a body.
ask() { # address, path, body
  local method=GET
  [[ -z $3 ]] || method=POST
  exec 3<>"/dev/tcp/${1/://}" || return
  printf '%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s' "$method" "$2" "$1" "${#3}" "$3" >&3
  timeout 10 cat <&3
  exec 3>&-
}

# await waits until a server is ready.
await() { # address
  local attempt
  for ((attempt = 0; ; attempt++)); do
    [[ -z $server ]] || kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
    [[ $({ ask "$1" /readyz ""; } 2>/dev/null) == *' 200 '*ready ]] && break
    ((attempt < 300)) || fail "/readyz is not ready after 60 s"
    sleep 0.2
  done
}

# infer wants an answer of an example model.
infer() { # address
  local answer
  answer=$(ask "$1" /v2/models/cartpole/infer '{"inputs": [
    {"name": "observation", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0.1, 0]}]}')
  [[ $answer == *' 200 '*'"name":"action"'* ]] || fail "no action in $answer"
}

# end stops the server, and wants it to end in order.
end() {
  kill -TERM "$server"
  wait "$server" || fail "the server ended with status $? after SIGTERM"
  server=
}
