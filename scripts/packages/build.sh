#!/usr/bin/env bash
# Packs a built weft and the pinned ONNX Runtime for this machine into OUT: a wheel for pip and, with NFPM, an archive, a
# .deb and a .rpm (build.sh WEFT OUT [NFPM]). VERSION=1.2.3 names another version than that of the commit's tag.
set -euo pipefail

usage='usage: build.sh WEFT OUT [NFPM]'
weft=${1:?$usage} out=${2:?$usage} nfpm=${3-}
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
strip "$STAGE/bin/weft" # of symbols for debuggers, a third of it; Go keeps its own for stack traces and profiles
install -D --mode 0644 "$library" "$STAGE/lib/libonnxruntime.so"
export GOARCH VERSION STAGE SOURCE_DATE_EPOCH

# The documents, and what README links to.
mkdir "$STAGE/doc"
mapfile -t linked < <(grep --only-matching --perl-regexp '\]\(\K(?!https?:)[^)#]+' README.md)
git ls-files -z -- README.md CHANGELOG.md LICENSE NOTICE deploy 'docs/*.md' "${linked[@]}" |
  xargs --null cp --parents --target-directory "$STAGE/doc"
go run ./scripts/sbom --texts >"$STAGE/doc/THIRD_PARTY.txt"

share=$STAGE/share
mkdir -p "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
scripts/packages/man.sh "$weft" | gzip --no-name >"$share/man/man1/weft.1.gz"
for script in bash:bash-completion/completions/weft zsh:zsh/site-functions/_weft fish:fish/vendor_completions.d/weft.fish; do
  # By its name: the program will lie elsewhere.
  "$weft" completion "${script%%:*}" | sed "s,$(realpath "$weft"),weft," >"$share/${script#*:}"
done
chmod -R u=rwX,go=rX "$STAGE"/{doc,share}

if ! command -v python3 >/dev/null; then
  echo 'skipped: the wheel, for there is no python3' >&2
else
  rm -f "$out"/weftserve-*.whl
  python3 scripts/packages/wheel.py "$STAGE" "$out"
  ls "$out"/weftserve-*.whl
fi
[[ -n $nfpm ]] || exit 0

for kind in deb rpm; do
  "$nfpm" package --config scripts/packages/nfpm.yaml --packager "$kind" --target "$out" >&2
done

cp scripts/packages/weft.service scripts/packages/weft.yaml "$STAGE"
mv "$STAGE"/doc/* "$STAGE"
rmdir "$STAGE/doc"
name=weft_${VERSION}_linux_$GOARCH
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
  --directory "$STAGE" --transform "s,^\.,$name," . | gzip --no-name >"$out/$name.tar.gz"
ls "$out/$name.tar.gz" "$out"/weft_*.deb "$out"/weft-*.rpm
