#!/bin/sh
# Runs after the files have gone. Models and decisions in /var/lib/weft stay: they are the user's.
set -e
[ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
