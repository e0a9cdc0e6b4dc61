#!/usr/bin/env bash
# Builds the site of docs/ into a folder (build.sh OUT). A link or an anchor that leads nowhere, and a page that needs
# another host, fail. Where Python or the packages are missing it says so and ends well; SITE_REQUIRED=1 makes that a failure.
set -euo pipefail

out=$(realpath -m "${1:?usage: build.sh OUT}")
cd "$(dirname "$0")/../.."
environment=.weft/site
scripts/clients/environment.sh "$environment" scripts/site/requirements.txt site || {
  [[ $? == 3 ]] && exit 0
  exit 1
}
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
rm -rf "$out"
"$environment/bin/python" -m mkdocs build --quiet --strict --config-file scripts/site/mkdocs.yml --site-dir "$out"
# A browser that shows the site asks no other host: only links, which a reader follows, lead elsewhere.
if grep -rlE '<(script|img|iframe)[^>]* src="?https?:|<link[^>]* rel="?(stylesheet|preconnect|icon)"?[^>]* href="?https?:|url\(.?https?:' \
  --include='*.html' --include='*.css' "$out"; then
  echo "site: these files have a browser ask another host" >&2
  exit 1
fi
echo "site: $(find "$out" -name '*.html' | wc -l) pages in $out"
