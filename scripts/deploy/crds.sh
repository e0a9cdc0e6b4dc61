#!/usr/bin/env bash
# Puts the definitions of custom resources that a list names (crds.sh LIST FOLDER) into a folder, unless it has them. They come
# out of their projects' Go modules, which are removed again: they are large.
set -euo pipefail

list=${1:?usage: crds.sh LIST FOLDER}
folder=${2:?usage: crds.sh LIST FOLDER}
if cmp -s "$list" "$folder/made"; then
  exit
fi
rm -rf "$folder"
mkdir -p "$folder/modules"
export GOMODCACHE=$folder/modules GOFLAGS=-modcacherw
while read -r module version sum files; do
  [[ $module != '#' ]] || continue
  if ! said=$(cd / && go mod download -json "$module@$version"); then
    echo "$module@$version cannot be downloaded: $(grep Error <<<"$said" || true)" >&2
    exit 1
  fi
  [[ $said == *"\"Sum\": \"$sum\""* ]] || { echo "$module@$version has another checksum than $list says" >&2; exit 1; }
  dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$said")
  for file in $files; do
    cp "$dir/$file" "$folder/${module//\//-}-${file##*/}"
  done
done <"$list"
rm -rf "$folder/modules"
cp "$list" "$folder/made"
