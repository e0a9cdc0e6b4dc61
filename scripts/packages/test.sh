#!/usr/bin/env bash
# Installs the packages of this machine that lie in FOLDER into folders of their own, and serves the example models with
# each (test.sh FOLDER NFPM). What needs a tool that is not here is skipped, and said.
set -euo pipefail

usage='usage: test.sh FOLDER NFPM'
folder=${1:?$usage} nfpm=$(realpath "${2:?$usage}")
repository=$PWD/examples/models unit=$PWD/scripts/packages/weft.service
work=$(mktemp --directory)
source scripts/packages/ask.sh

if [[ $(uname) != Linux ]]; then
  say "skipped: packages are for Linux"
  exit
fi

has() { command -v "$1" >/dev/null || { say "skipped: $2, for there is no $1"; return 1; }; }

# only prints the one file of a pattern.
only() {
  local found=("$folder"/$1)
  ((${#found[@]} == 1)) && [[ -f ${found[0]} ]] || fail "want one $1 in $folder, have: ${found[*]}; run make package"
  realpath "${found[0]}"
}

# serve runs a command that serves the example models with the packaged library, asks it, reloads it, and stops it.
serve() { # settings, command...
  local settings=$1 http attempt
  shift
  http=127.0.0.1:$(free_port)
  # Not where it was built: there, a library of the source tree would be found.
  (cd "$work" && exec env -u WEFT_ONNXRUNTIME_LIB "$@" serve --config "$settings" --listen "127.0.0.1:$(free_port)" \
    --http "$http" --admin-listen "" --state-dir none --lame-duck 0s "$repository") >"$work/log" 2>&1 &
  server=$!
  await "$http"
  infer "$http"
  [[ -z ${began-} ]] || awk -v a="$began" -v b="$EPOCHREALTIME" \
    'BEGIN { printf "packages: %.1f s from the package to the first answer\n", b - a }'
  kill -HUP "$server"
  for ((attempt = 0; ; attempt++)); do
    grep --quiet 'event=settings_reloaded' "$work/log" && break
    ((attempt < 100)) || fail "no settings_reloaded 20 s after SIGHUP"
    sleep 0.2
  done
  end
}

# wants fails unless the files of a package are as they must be.
wants() { # package, listing
  local file
  for file in usr/bin/weft usr/lib/weft/bin/weft usr/lib/weft/lib/libonnxruntime.so etc/weft/weft.yaml \
    usr/lib/systemd/system/weft.service usr/share/man/man1/weft.1.gz \
    usr/share/{bash-completion/completions/weft,fish/vendor_completions.d/weft.fish,zsh/.*/_weft} \
    usr/share/doc/weft/{README.md,CHANGELOG.md,LICENSE,NOTICE,THIRD_PARTY.txt,deploy/prometheus/alerts.yaml}; do
    grep --quiet --line-regexp "[./]*/$file" <<<"$2" || fail "$1 has no /$file"
  done
}

# documents wants each relative link of the README in a folder to lead to a file there, and the page of the manual to be
# readable.
documents() { # folder, folder of share
  local link said
  for link in $(grep --only-matching --perl-regexp '\]\(\K(?!https?:)[^)#]+' "$1/README.md"); do
    [[ -e $1/$link ]] || fail "README.md links to $link, which is not packed: build.sh packs what git has"
  done
  zgrep --quiet '^\.SH WEFT SERVE' "$2/man/man1/weft.1.gz" || fail "weft.1 does not tell of weft serve"
  grep --quiet "'weft complete'" "$2/bash-completion/completions/weft" || fail "bash would not ask weft for completions"
  has man 'to read weft.1' || return 0
  said=$(man --warnings --local-file "$2/man/man1/weft.1.gz" 2>&1 >/dev/null) && [[ -z $said ]] || fail "weft.1: $said"
}

archive() {
  local package began=$EPOCHREALTIME
  package=$(only 'weft_*_linux_*.tar.gz')
  mkdir "$work/archive"
  tar --extract --gzip --file "$package" --directory "$work/archive" --strip-components 1
  serve "$work/archive/weft.yaml" "$work/archive/bin/weft"
  "$work/archive/bin/weft" version
  documents "$work/archive" "$work/archive/share"
  say "the archive serves"
}

wheel() {
  local package began venv=$work/venv
  has python3 'the wheel' || return 0
  python3 -c 'import ensurepip' 2>/dev/null || { say "skipped: the wheel, for this python3 has no pip"; return 0; }
  package=$(only 'weftserve-*.whl')
  python3 -m venv "$venv"
  began=$EPOCHREALTIME
  "$venv/bin/python" -m pip install --no-index --no-deps --quiet --disable-pip-version-check "$package"
  serve "$work/archive/weft.yaml" "$venv/bin/weft"
  [[ $("$venv/bin/python" -m weftserve version) == $("$venv/bin/weft" version) ]] || fail "python -m weftserve is no weft"
  say "the wheel serves"
}

deb() {
  local package root=$work/deb
  package=$(only 'weft_*.deb')
  has dpkg-deb 'the .deb' || return 0
  wants "$package" "$(dpkg-deb --fsys-tarfile "$package" | tar --list)"
  [[ $(dpkg-deb --info "$package" conffiles) == /etc/weft/weft.yaml ]] || fail "$package: weft.yaml is no conffile"
  dpkg-deb --extract "$package" "$root"
  documents "$root/usr/share/doc/weft" "$root/usr/share"
  "$root/usr/bin/weft" version
  serve "$root/etc/weft/weft.yaml" "$root/usr/bin/weft"
  say "the .deb serves"
  has systemd-analyze 'to serve as confined as the unit says' || return 0
  go build -o "$work/confine" ./scripts/packages/confine
  serve "$root/etc/weft/weft.yaml" "$work/confine" "$unit" "$root/usr/bin/weft"
  # The processes of models confine themselves further, as far as the kernel can.
  if grep 'event=worker_sandbox_incomplete.*not permitted' "$work/log"; then
    fail "the unit keeps processes of models from confining themselves"
  fi
  say "the .deb serves under the system calls, address families and memory that the unit allows"
}

# libc wants no newer C library to be needed than the packages ask for: that depends on where they were built.
libc() {
  local wanted needed
  wanted=$(sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p' scripts/packages/nfpm.yaml)
  needed=$(grep --text --only-matching --no-filename 'GLIBC_[0-9][0-9.]*' "$work"/archive/{bin/weft,lib/libonnxruntime.so} |
    cut -d _ -f 2 | sort --unique --version-sort | tail -1)
  [[ $(printf '%s\n' "$needed" "$wanted" | sort --version-sort | tail -1) == "$wanted" ]] ||
    fail "the program needs glibc $needed, and the packages ask for $wanted: build on an older system, or change nfpm.yaml"
  say "glibc $needed is needed, $wanted is asked for"
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
  documents "$root/usr/share/doc/weft" "$root/usr/share"
  serve "$root/etc/weft/weft.yaml" "$root/usr/bin/weft"
  "${rpm[@]}" --erase weft 2>"$work/said" || fail "rpm --erase: $(cat "$work/said")"
  [[ ! -e $root/usr/bin/weft && ! -e $root/usr/lib/weft ]] || fail "after the removal: $(find "$root/usr")"
  say "rpm installs the .rpm, which serves, and removes it"
}

# other packs stand-ins for arm64: its packages are of the same configuration, and are built on such a machine.
other() {
  local kind
  export GOARCH=arm64 VERSION=1.2.3 STAGE=$work/stage
  mkdir -p "$work/arm64"
  cp -r "$work/archive" "$STAGE"
  mkdir "$STAGE/doc"
  cp README.md "$STAGE/doc"
  for kind in deb rpm; do
    "$nfpm" package --config scripts/packages/nfpm.yaml --packager "$kind" --target "$work/arm64" >"$work/log" ||
      fail "nfpm: $kind for arm64"
  done
  [[ -f $work/arm64/weft_1.2.3_arm64.deb && -f $work/arm64/weft-1.2.3-1.aarch64.rpm ]] ||
    fail "packages for arm64 have other names: $(ls "$work/arm64")"
  say "the configuration packs for arm64, too (stand-ins)"
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
wheel
libc
deb
deb_life
rpm_life
systemd
other
