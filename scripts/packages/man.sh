#!/usr/bin/env bash
# Prints the manual page weft(1), of what the program's --help says (man.sh WEFT).
set -euo pipefail

weft=${1:?usage: man.sh WEFT}

# words prints the commands that may come after a line.
words() { COMP_LINE="$1 " "$weft" complete; }

# verbatim prints what --help says, as it is.
verbatim() {
  echo .nf
  "$weft" "$@" --help | sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
  echo .fi
}

printf '.TH WEFT 1 "%s" "Weft %s" "User Commands"\n' "$(date --utc --date "@${SOURCE_DATE_EPOCH:?}" +%F)" "${VERSION:?}"
printf '.SH NAME\nweft \\- serve ONNX models over gRPC and HTTP\n.SH SYNOPSIS\n.B weft\n.I COMMAND\n[\\fIFLAGS\\fR] [\\fIARGUMENTS\\fR]\n'
echo '.SH DESCRIPTION'
verbatim
for command in $(words weft); do
  echo ".SH WEFT ${command^^}"
  verbatim "$command"
done
for command in $(words 'weft rollout'); do
  echo ".SH WEFT ROLLOUT ${command^^}"
  verbatim rollout "$command"
done
printf '.SH FILES\n/etc/weft/weft.yaml, /usr/share/doc/weft/docs\n'
