#!/usr/bin/env bash
# Refuses turns of phrase that make readers stop, in comments of Go and in documents, beyond what scripts/words.txt still
# allows; and subjects of commits that are not "pkg: verb object" (words.sh [--write], which lowers the table).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
table=scripts/words.txt

text() {
  git ls-files -z '*.go' ':!proto/gen' | xargs -0 grep -snHE '^\s*//|\s//\s' | sed -E 's#^([^:]+:[0-9]+:).*(^|\s)//#\1 //#'
  git ls-files -z '*.md' | xargs -0 grep -snHE '.'
}

said=$(mktemp) kept=$(mktemp)
trap 'rm -f "$said" "$kept"' EXIT
text >"$said" || true # a file that was removed and not committed yet is no fault
status=0
while IFS= read -r row; do
  if [[ $row == '#'* || -z $row ]]; then
    echo "$row" >>"$kept"
    continue
  fi
  IFS=';' read -r allowed phrase instead <<<"$row"
  found=$(grep -ciE ":.*\b(${phrase# })\b" "$said") || true
  if ((found > allowed)); then
    grep -m 20 -iE ":.*\b(${phrase# })\b" "$said" >&2
    echo "words: \"${phrase# }\" stands in $found lines, $allowed are allowed: write${instead}" >&2
    status=1
  fi
  echo "$((found < allowed ? found : allowed));$phrase;$instead" >>"$kept"
done <"$table"
if [[ ${1:-} == --write ]]; then
  cp "$kept" "$table"
  exit
fi

for against in origin/main main; do
  if git rev-parse --quiet --verify "$against^{commit}" >/dev/null; then
    if git log --no-merges --format='%h %s' "$against..HEAD" | grep -vE '^[0-9a-f]+ [a-z0-9_./, *{}-]+: [a-z]' >&2; then
      echo 'words: a commit is not "pkg/path: verb object", in lower case' >&2
      status=1
    fi
    break
  fi
done
exit "$status"
