#!/usr/bin/env bash
# Prints the path of a real HAProxy, as debian.sh does.
exec "$(dirname "$0")/debian.sh" haproxy haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1
