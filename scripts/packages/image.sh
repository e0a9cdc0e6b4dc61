#!/usr/bin/env bash
# Checks the Dockerfile (image.sh WORK): with docker or podman, it is built, and serves the example models. Without, its
# RUN lines run in a copy of the tree, its last stage is put together in a folder, and its command runs there.
set -euo pipefail

work=$(realpath "${1:?usage: image.sh WORK}")
source scripts/packages/ask.sh

container=

cleanup() { [[ -z $container ]] || "$builder" rm --force "$container" >/dev/null || true; }

build() { # builder
  local http
  http=127.0.0.1:$(free_port)
  "$1" build --tag weft:check .
  container=$("$1" run --detach --read-only --cap-drop ALL --publish "$http:9001" \
    --volume "$PWD/examples/models:/models:ro" weft:check --insecure /models)
  await "$http"
  infer "$http"
  "$1" stop --time 40 "$container" >/dev/null
  [[ $("$1" inspect --format '{{.State.ExitCode}}' "$container") == 0 ]] || fail "the container did not stop in order"
  say "the image serves"
}

# stage runs the RUN lines of the stage "build", and does the COPY lines of the last one.
stage() {
  local line words stage='' last='' from to file
  mkdir -p "$work/src" "$work/image"
  git ls-files --cached --others --exclude-standard -z | tar --create --null --files-from - |
    tar --extract --directory "$work/src"
  while IFS= read -r line; do
    read -ra words <<<"$line"
    case ${words[0]-} in
      FROM)
        stage=${words[3]-}
        [[ -n $stage ]] || last=yes
        ;;
      RUN)
        [[ $stage == build && -z $last ]] || fail "this script does not know how to run: $line"
        (cd "$work/src" && env -u WEFT_ONNXRUNTIME_LIB bash -e -c "${line#RUN }") >"$work/log" 2>&1 || fail "$line"
        ;;
      COPY)
        [[ -n $last ]] || continue
        to=${words[-1]}
        for from in "${words[@]:2:${#words[@]}-3}"; do
          for file in "$work"$from; do # the pattern is meant
            if [[ $to == */ ]]; then
              install -D "$file" "$work/image$to$(basename "$file")"
            else
              install -D "$file" "$work/image$to"
            fi
          done
        done
        ;;
    esac
  done <Dockerfile
}

# confined runs a program as the container's user, without a capability, and with everything read-only; as it is, where
# this user may not make such a view.
confined() {
  if ! unshare --mount true 2>/dev/null; then
    exec "$@"
  fi
  # shellcheck disable=SC2016 # the inner shell expands it
  exec unshare --mount --propagation private bash -euo pipefail -c '
    findmnt --raw --noheadings --output TARGET | tac | while read -r at; do
      [[ $at =~ ^/(proc|sys|dev)(/|$) ]] || mount -o remount,bind,ro "$at" || true
    done
    ! touch "$0/written" 2>/dev/null || { echo "the view is not read-only"; exit 1; }
    exec setpriv --reuid 65532 --regid 65532 --clear-groups --bounding-set -all --inh-caps=-all --no-new-privs "$@"
  ' "$work" "$@"
}

# run runs the command of the image, as far as that goes without a container.
run() {
  local http command
  http=127.0.0.1:$(free_port)
  command=$(sed -n 's/^ENTRYPOINT //p' Dockerfile | tr -d '[]",')
  [[ $command == "/usr/lib/weft/bin/weft serve --config /etc/weft/weft.yaml" ]] || fail "ENTRYPOINT is $command"
  local image=$work/image
  # It must not serve the network unasked.
  if (cd "$image" && "$image/usr/lib/weft/bin/weft" serve --config "$image/etc/weft/weft.yaml" "$work/src/examples/models") \
    >"$work/log" 2>&1; then
    fail "it serves everybody without --insecure"
  fi
  grep --quiet 'set insecure' "$work/log" || fail "without --insecure, it does not say what to do"
  chmod -R go+rX "$work"
  (cd "$image" && confined "$image/usr/lib/weft/bin/weft" serve --config "$image/etc/weft/weft.yaml" \
    --listen "127.0.0.1:$(free_port)" --http "$http" --insecure --state-dir none --lame-duck 0s "$work/src/examples/models") \
    >"$work/log" 2>&1 &
  server=$!
  await "$http"
  infer "$http"
  end
  say "the image's files serve, $(grep -o 'worker_sandbox[a-z_]*' "$work/log") (no builder of images is here: not run in a container)"
}

for builder in docker podman; do
  if command -v "$builder" >/dev/null && "$builder" info >/dev/null 2>&1; then
    build "$builder"
    exit
  fi
done
stage
run
