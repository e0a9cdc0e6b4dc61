#!/usr/bin/env bash
# Applies deploy/kubernetes to a real API server, and has KServe's real controller make Deployments and Services of its
# samples (run.sh [--update], which rewrites testdata). It compiles both the first time, for a quarter of an hour on two
# cores. It says what cannot be had; DEPLOY_REQUIRED=1 makes that a failure.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
cd "$here/../../.."
folder=$PWD/.weft/cluster deploy=$PWD/.weft/deploy
mkdir -p "$folder"

needs() { # what, the command that gets it
  local what=$1 why
  shift
  why=$("$@" 2>&1) && return
  why="$what cannot be had (DEPLOY_REQUIRED=1 makes this a failure): $(tail -n 1 <<<"$why")"
  echo "cluster: SKIPPED, since $why" >&2
  [[ ${DEPLOY_REQUIRED:-} != 1 ]]
  exit
}

# These say themselves what cannot be had.
etcd=$(scripts/deploy/debian.sh etcd etcd-server) || exit $(($? == 3 ? 0 : 1))
scripts/clients/environment.sh "$deploy/python" scripts/deploy/requirements.txt deploy || exit $(($? == 3 ? 0 : 1))
needs openssl command -v openssl
needs "the definitions of custom resources" scripts/deploy/crds.sh scripts/deploy/crds.txt "$deploy/crds"
needs kustomize go build -C scripts/deploy/kustomize -o "$PWD/.weft/bin/" sigs.k8s.io/kustomize/kustomize/v5
needs kube-apiserver go build -C "$here/apiserver" -ldflags='-s -w' -o "$folder/" k8s.io/kubernetes/cmd/kube-apiserver
needs "KServe's controller" go build -C "$here/kserve" -ldflags='-s -w' -o "$folder/" \
  github.com/kserve/kserve/cmd/manager
kserve=$(go list -C "$here/kserve" -m -f '{{.Dir}}' github.com/kserve/kserve)
exec "$deploy/python/bin/python" "$here/cluster.py" --etcd "$etcd" --apiserver "$folder/kube-apiserver" \
  --manager "$folder/manager" --kserve "$kserve" --crds "$deploy/crds" --kustomize .weft/bin/kustomize \
  --golden "$here/testdata" "$@"
