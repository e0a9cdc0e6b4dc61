#!/usr/bin/env bash
# Installs the packages of this machine that lie in FOLDER into folders of their own, and serves the example models with
# each (test.sh FOLDER CONFINE). CONFINE is scripts/packages/confine. What needs a tool that is not here is skipped, and
# said.
set -euo pipefail

usage='usage: test.sh FOLDER CONFINE'
folder=${1:?$usage} confine=$(realpath "${2:?$usage}")
repository=$PWD/examples/models unit=$PWD/scripts/packages/weft.service
work=$(mktemp --directory)
server=

finish() {
  status=$?
  if [[ -n $server ]]; then
    kill -KILL "$server" 2>/dev/null || true
  fi
  if ((status != 0)) && [[ -s $work/log ]]; then
    echo "packages: failed; the server's log:" >&2
    cat "$work/log" >&2
  fi
  rm -rf "$work"
}
trap finish EXIT

fail() {
  echo "packages: $*" >&2
  exit 1
}

say() { echo "packages: $*"; }

has() { command -v "$1" >/dev/null || { say "skipped: $2, for there is no $1"; return 1; }; }

# only prints the one file of a pattern.
only() {
  local found=("$folder"/$1)
  ((${#found[@]} == 1)) && [[ -f ${found[0]} ]] || fail "want one $1 in $folder, have: ${found[*]}; run make package"
  realpath "${found[0]}"
}

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

# serve runs a command that serves the example models with the packaged library, asks it, reloads it, and stops it.
serve() { # settings, command...
  local settings=$1 http answer attempt
  shift
  http=127.0.0.1:$(free_port)
  # Not where it was built: there, a library of the source tree would be found.
  (cd "$work" && exec env -u WEFT_ONNXRUNTIME_LIB "$@" serve --config "$settings" --listen "127.0.0.1:$(free_port)" \
    --http "$http" --admin-listen "" --state-dir none "$repository") >"$work/log" 2>&1 &
  server=$!
  for ((attempt = 0; ; attempt++)); do
    kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
    [[ $({ ask "$http" /readyz ""; } 2>/dev/null) == *' 200 '*ready ]] && break
    ((attempt < 300)) || fail "/readyz is not ready after 60 s"
    sleep 0.2
  done
  answer=$(ask "$http" /v2/models/cartpole/infer '{"inputs": [
    {"name": "observation", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0.1, 0]}]}')
  [[ $answer == *' 200 '*'"name":"action"'* ]] || fail "no action in $answer"
  kill -HUP "$server"
  for ((attempt = 0; ; attempt++)); do
    grep --quiet 'event=settings_reloaded' "$work/log" && break
    ((attempt < 100)) || fail "no settings_reloaded 20 s after SIGHUP"
    sleep 0.2
  done
  kill -TERM "$server"
  wait "$server" || fail "the server ended with status $? after SIGTERM"
  server=
}

# wants fails unless the files of a package are as they must be.
wants() { # package, listing
  local file
  for file in usr/bin/weft usr/lib/weft/bin/weft usr/lib/weft/lib/libonnxruntime.so etc/weft/weft.yaml \
    usr/lib/systemd/system/weft.service \
    usr/share/doc/weft/{README.md,CHANGELOG.md,INSTALL.md,LICENSE,NOTICE,THIRD_PARTY.txt}; do
    grep --quiet --line-regexp "[./]*/$file" <<<"$2" || fail "$1 has no /$file"
  done
}

archive() {
  local package
  package=$(only 'weft_*_linux_*.tar.gz')
  mkdir "$work/archive"
  tar --extract --gzip --file "$package" --directory "$work/archive" --strip-components 1
  "$work/archive/bin/weft" version
  serve "$work/archive/weft.yaml" "$work/archive/bin/weft"
  say "the archive serves"
}

deb() {
  local package root=$work/deb
  package=$(only 'weft_*.deb')
  has dpkg-deb 'the .deb' || return 0
  wants "$package" "$(dpkg-deb --fsys-tarfile "$package" | tar --list)"
  [[ $(dpkg-deb --info "$package" conffiles) == /etc/weft/weft.yaml ]] || fail "$package: weft.yaml is no conffile"
  dpkg-deb --extract "$package" "$root"
  "$root/usr/bin/weft" version
  serve "$root/etc/weft/weft.yaml" "$root/usr/bin/weft"
  say "the .deb serves"
  has systemd-analyze 'to serve as confined as the unit says' || return 0
  serve "$root/etc/weft/weft.yaml" "$confine" "$unit" "$root/usr/bin/weft"
  # The processes of models confine themselves further, as far as the kernel can.
  if grep 'event=worker_sandbox_incomplete.*not permitted' "$work/log"; then
    fail "the unit keeps processes of models from confining themselves"
  fi
  say "the .deb serves under the system calls, address families and memory that the unit allows"
}

# deb_life installs the .deb, replaces it and removes it, by dpkg in a folder. Its scripts have no systemd there.
deb_life() {
  local package root=$work/root dpkg
  package=$(only 'weft_*.deb')
  has dpkg 'to install the .deb' && has fakeroot 'to install the .deb' || return 0
  mkdir -p "$root/var/lib/dpkg"
  touch "$root/var/lib/dpkg/status"
  dpkg=(fakeroot dpkg --root="$root" --log=/dev/null --force-script-chrootless --force-depends --force-confold
    --force-not-root)
  local log=$work/dpkg
  "${dpkg[@]}" --install "$package" >"$log" 2>&1 || fail "dpkg: $(cat "$log")"
  "$root/usr/bin/weft" version >/dev/null
  echo 'log-level: warn' >>"$root/etc/weft/weft.yaml"
  "${dpkg[@]}" --install "$package" >"$log" 2>&1 || fail "dpkg, once more: $(cat "$log")"
  grep --quiet 'log-level: warn' "$root/etc/weft/weft.yaml" || fail "an upgrade replaced settings"
  "${dpkg[@]}" --remove weft >"$log" 2>&1 || fail "dpkg --remove: $(cat "$log")"
  [[ -f $root/etc/weft/weft.yaml && ! -e $root/usr/bin/weft ]] || fail "after the removal: $(find "$root" -type f)"
  "${dpkg[@]}" --purge weft >"$log" 2>&1 || fail "dpkg --purge: $(cat "$log")"
  [[ ! -e $root/etc/weft && ! -e $root/usr/lib/weft ]] || fail "after the purge: $(find "$root" -type f)"
  say "dpkg installs, upgrades, removes and purges the .deb"
}

# rpm_life lists the .rpm, and installs, asks and removes it by rpm in a folder, which only root can.
rpm_life() {
  local package root=$work/rpm rpm
  package=$(only 'weft-*.rpm')
  has rpm 'the .rpm' || return 0
  wants "$package" "$(rpm --query --package --list "$package" 2>/dev/null)"
  [[ $(rpm --query --package --configfiles "$package" 2>/dev/null) == /etc/weft/weft.yaml ]] ||
    fail "$package: weft.yaml is no configuration"
  say "the .rpm has its files"
  ((UID == 0)) || { say "skipped: to install the .rpm, for this is not root"; return 0; }
  rpm=(rpm --root "$root" --nodeps --noscripts)
  mkdir "$root"
  "${rpm[@]}" --install "$package" 2>"$work/said" || fail "rpm: $(cat "$work/said")"
  serve "$root/etc/weft/weft.yaml" "$root/usr/bin/weft"
  "${rpm[@]}" --erase weft 2>"$work/said" || fail "rpm --erase: $(cat "$work/said")"
  [[ ! -e $root/usr/bin/weft && ! -e $root/usr/lib/weft ]] || fail "after the removal: $(find "$root/usr")"
  say "rpm installs the .rpm, which serves, and removes it"
}

# systemd reads the unit, and judges how confined it is: 0 is best, 10 is worst.
systemd() {
  has systemd-analyze 'to verify the unit' || return 0
  local said
  mkdir "$work/unit"
  sed "s,^ExecStart=/usr/bin/weft ,ExecStart=$work/deb/usr/bin/weft ," "$unit" >"$work/unit/weft.service"
  said=$(systemd-analyze verify --man=no "$work/unit/weft.service" 2>&1) || fail "systemd-analyze verify: $said"
  [[ -z $said ]] || fail "systemd-analyze verify: $said"
  said=$(systemd-analyze security --offline=true --no-pager --threshold=20 "$work/unit/weft.service") ||
    fail "systemd-analyze security: $said"
  say "systemd-analyze: $(tail -1 <<<"$said")"
}

archive
deb
deb_life
rpm_life
systemd
