#!/usr/bin/env bash
# Looks for known vulnerabilities that the code of this module and of the laboratory can reach (vulncheck.sh GOVULNCHECK).
# Where the database cannot be reached it says so and ends with status 0; with VULNCHECK_REQUIRED=1, as for a release, with
# status 1.
# GOVULNDB is the URL of another database, such as file:///copy.
set -euo pipefail

govulncheck=${1:?usage: vulncheck.sh GOVULNCHECK}
said=$(mktemp)
workspace=$(mktemp -d)
trap 'rm -rf "$said" "$workspace"' EXIT
printf 'go %s\nuse %s\nuse %s\n' "$(go list -m -f '{{.GoVersion}}')" "$PWD" "$PWD/tools/lab" >"$workspace/go.work"

status=0
# All packages, not the programs: what a command line calls by reflection would count as unreachable.
GOWORK=$workspace/go.work "$govulncheck" ${GOVULNDB:+-db="$GOVULNDB"} ./... ./tools/lab/... >"$said" 2>&1 || status=$?
cat "$said"
case $status in
  0) echo "vulncheck: ok" ;;
  3)
    echo "vulncheck: the code reaches known vulnerabilities, see above; move to the versions that fix them" >&2
    exit 1
    ;;
  *)
    if grep -q 'fetching vulnerabilities' "$said"; then
      if [[ ${VULNCHECK_REQUIRED:-} == 1 ]]; then
        echo "vulncheck: the database cannot be reached, and VULNCHECK_REQUIRED=1 asks for it" >&2
        exit 1
      fi
      echo "vulncheck: SKIPPED: the database cannot be reached; NOTHING WAS CHECKED" >&2
      exit 0
    fi
    echo "vulncheck: govulncheck failed with status $status" >&2
    exit 1
    ;;
esac
