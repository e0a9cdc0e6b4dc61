#!/usr/bin/env bash
# Checks the files in deploy/ for Kubernetes, Envoy and HAProxy: the former against the schemas of Kubernetes and of the
# projects whose resources they are, the others by the programs themselves. What is needed for that is fetched into .weft. It
# says what cannot be had; DEPLOY_REQUIRED=1 makes that a failure.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
cd "$here/../.."
folder=$PWD/.weft/deploy tools=$PWD/.weft/bin
mkdir -p "$folder" "$tools"
failed=

fail() {
  echo "deploy: $*" >&2
  failed=yes
}

skipped() { # what, why
  echo "deploy: SKIPPED, since $1 cannot be had (DEPLOY_REQUIRED=1 makes this a failure): $2" >&2
  [[ ${DEPLOY_REQUIRED:-} != 1 ]] || failed=yes
}

# refuses wants a program to take a file, without a warning, and to refuse it with each of some words misspelt.
refuses() { # file, words, program with its flags
  local file=$1 words=$2 word said
  shift 2
  said=$("$@" "$file" 2>&1) || fail "$file is refused: $(tail -n 2 <<<"$said")"
  [[ $said != *'[warning]'* && $said != *'[WARNING]'* ]] || fail "$file: $(grep --ignore-case '\[warning\]' <<<"$said")"
  for word in $words; do
    sed "s/\b$word\b/${word}x/" "$file" >"$folder/misspelt.${file##*.}"
    ! cmp --silent "$file" "$folder/misspelt.${file##*.}" || fail "$file does not have $word"
    ! "$@" "$folder/misspelt.${file##*.}" >/dev/null 2>&1 || fail "$file: $word was misspelt, and it was not found"
  done
}

kubernetes() {
  local why kustomize=$tools/kustomize module=$here/kustomize
  if ! [[ $kustomize -nt $module/go.mod && $kustomize -nt $module/go.sum ]] &&
    ! why=$(go build -C "$module" -o "$tools/" sigs.k8s.io/kustomize/kustomize/v5 2>&1 && touch "$kustomize"); then
    skipped kustomize "$(tail -n 1 <<<"$why")"
    kustomize=
  fi
  if ! why=$("$here/crds.sh" "$here/crds.txt" "$folder/crds" 2>&1); then
    skipped "the definitions of custom resources" "$(tail -n 1 <<<"$why")"
    return
  fi
  "$folder/python/bin/python" "$here/check.py" deploy/kubernetes "$folder/crds" $kustomize || failed=yes
}

if "$here/../clients/environment.sh" "$folder/python" "$here/requirements.txt" deploy; then
  kubernetes
  envoy=$("$here/envoy.sh")
  # What weft place writes is a cluster for roster.yaml, which Envoy would read only once it runs.
  REPLICAS=weft-0,weft-1 bin/weft place examples/models --roster REPLICAS --envoy "$folder/clusters.yaml" >/dev/null
  sed --expression '1,2d' --expression 's/^- "@type".*/-/' --expression 's/^/  /' "$folder/clusters.yaml" |
    sed '1i static_resources:\n  clusters:' >"$folder/cluster.yaml"
  sed "s,/etc/weft,$folder,g" deploy/envoy/roster.yaml >"$folder/roster.yaml"
  for file in deploy/envoy/[!r]*.yaml deploy/envoy/ring-hash.yaml; do
    refuses "$file" "retry_on grpc_health_check max_retries host_selection_retry_max_attempts" \
      "$envoy" --mode validate --log-level warning --config-path
  done
  refuses "$folder/roster.yaml" "retry_on request_rules on_header_present" \
    "$envoy" --mode validate --log-level warning --config-path
  refuses "$folder/cluster.yaml" "list_as_any grpc_health_check max_retries" \
    "$envoy" --mode validate --log-level warning --config-path
  echo "deploy: Envoy takes deploy/envoy"
elif (($? != 3)); then # else it has said so
  failed=yes
fi
if haproxy=$("$here/haproxy.sh"); then
  refuses deploy/haproxy/haproxy.cfg "leastconn httpchk retry-on" "$haproxy" -c -f
  echo "deploy: HAProxy takes deploy/haproxy"
elif (($? != 3)); then
  failed=yes
fi
[[ -z $failed ]]
