#!/bin/sh
# Runs before the files go: with "remove" by dpkg, with 0 by rpm, and with others where an upgrade puts new ones there.
set -e
[ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] || exit 0
case "$1" in
  remove | 0) systemctl --no-reload disable --now weft.service ;;
esac
