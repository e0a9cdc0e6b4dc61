#!/usr/bin/env bash
# Packs a built weft and the pinned ONNX Runtime for this machine into OUT: an archive, a .deb and a .rpm
# (build.sh WEFT NFPM OUT). VERSION=1.2.3 names another version than that of the commit's tag.
set -euo pipefail

usage='usage: build.sh WEFT NFPM OUT'
weft=${1:?$usage} nfpm=${2:?$usage} out=${3:?$usage}
if [[ $(uname) != Linux ]]; then
  echo 'skipped: packages are for Linux' >&2
  exit
fi
library=.weft/onnxruntime/$(sed -n 's/^const Version = "\(.*\)"$/\1/p' internal/ortlib/ortlib.go)/lib/libonnxruntime.so
GOARCH=${GOARCH:-$(go env GOARCH)}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
if [[ -z ${VERSION:-} ]]; then
  VERSION=$(git describe --tags --exact-match --match 'v*' 2>/dev/null || git log -1 --format=0.0.0-dev.%ct.%h)
fi
VERSION=${VERSION#v}

mkdir -p "$out"
STAGE=$(mktemp --directory "$out/stage.XXXXXX")
trap 'rm -rf "$STAGE"' EXIT
install -D --mode 0755 "$weft" "$STAGE/bin/weft"
install -D --mode 0644 "$library" "$STAGE/lib/libonnxruntime.so"
mkdir "$STAGE/doc"
cp README.md CHANGELOG.md LICENSE NOTICE docs/INSTALL.md "$STAGE/doc"
go run ./scripts/sbom --texts >"$STAGE/doc/THIRD_PARTY.txt"
chmod 0644 "$STAGE"/doc/*

export GOARCH VERSION STAGE SOURCE_DATE_EPOCH
for kind in deb rpm; do
  "$nfpm" package --config scripts/packages/nfpm.yaml --packager "$kind" --target "$out" >&2
done

cp scripts/packages/weft.service scripts/packages/weft.yaml "$STAGE"
mv "$STAGE"/doc/{README.md,LICENSE,NOTICE} "$STAGE"
name=weft_${VERSION}_linux_$GOARCH
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
  --directory "$STAGE" --transform "s,^\.,$name," . | gzip --no-name >"$out/$name.tar.gz"
ls "$out/$name.tar.gz" "$out"/weft_*.deb "$out"/weft-*.rpm
