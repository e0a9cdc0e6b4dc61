#!/usr/bin/env bash
# Prints the path of a program (debian.sh PROGRAM PACKAGE...): the machine's, or else Debian's, unpacked into .weft/deploy
# without an installation, with the packages of its libraries. Where it cannot be had it says so and ends with status 3;
# DEPLOY_REQUIRED=1 makes that a failure.
set -euo pipefail

program=${1:?usage: debian.sh PROGRAM PACKAGE...}
shift
if command -v "$program"; then
  exit
fi
folder=$(realpath "$(dirname "$0")/../..")/.weft/deploy/$program
mkdir -p "$folder"

# fetch asks the lists of packages that the machine has, or, where it has none, lists of its own.
fetch() (
  rm -rf "$folder/now" "$folder/part"
  mkdir "$folder/part" && cd "$folder/part" || return
  if ! apt-get download "$@"; then
    mkdir -p lists/partial cache/archives/partial
    own=(-o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache")
    apt-get "${own[@]}" update && apt-get "${own[@]}" download "$@" || return
  fi
  for package in *.deb; do
    dpkg-deb --extract "$package" unpacked || return
  done
  # The libraries lie where the machine's loader does not look.
  cat >"$program" <<'END'
#!/bin/sh
here=$(dirname "$(realpath "$0")")/unpacked/usr
LD_LIBRARY_PATH=$(echo "$here"/lib/*-linux-gnu*) exec "$here"/*bin/"$(basename "$0")" "$@"
END
  chmod +x "$program"
  LD_LIBRARY_PATH=$(echo "$PWD"/unpacked/usr/lib/*-linux-gnu*) ldd unpacked/usr/*bin/"$program" >libraries || return
  ! grep 'not found' libraries && mv "$folder/part" "$folder/now"
)

# Checks that run at the same time fetch it once.
exec 9<"$folder"
flock 9
if [[ ! -x $folder/now/$program ]] && ! why=$(fetch "$@" 2>&1); then
  echo "deploy: SKIPPED, since $program cannot be had (DEPLOY_REQUIRED=1 makes this a failure): $(tail -n 1 <<<"$why")" >&2
  [[ ${DEPLOY_REQUIRED:-} != 1 ]] || exit 1
  exit 3
fi
echo "$folder/now/$program"
