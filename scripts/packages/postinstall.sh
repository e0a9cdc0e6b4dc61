#!/bin/sh
# Runs after the files are in place. A server that runs goes on with the new program; none is started or enabled.
set -e
[ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart weft.service
