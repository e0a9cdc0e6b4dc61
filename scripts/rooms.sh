#!/usr/bin/env bash
# Prints the lines of Go by room, code and tests, and fails where a room is larger than scripts/rooms.txt allows
# (rooms.sh [--write]). A room is a folder with all below it, two names deep; generated code does not count.
# --write lowers the table to what is there, rounded up to 25, and adds rooms that are new; it raises nothing. A change
# that adds more than 300 lines to the main branch says in a commit what it took away: a line "Removed: ...".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
table=scripts/rooms.txt

count() {
  git ls-files --cached --others --exclude-standard -z '*.go' | { xargs -0 grep -sLE '^// Code generated .* DO NOT EDIT\.$' -- || true; } |
    while read -r file; do [[ -e $file ]] && printf '%s %s\n' "$(wc -l <"$file")" "$file"; done |
    awk '{ n = split($2, at, "/"); room = n > 2 ? at[1] "/" at[2] : at[1]; lines[room]
           if ($2 ~ /_test\.go$/) tests[room] += $1; else code[room] += $1 }
         END { for (room in lines) printf "%s %d %d\n", room, code[room], tests[room] }' | LC_ALL=C sort
}

count | awk -v table="$table" -v write="${1:-}" '
  function roundUp(lines) { return int((lines + 24) / 25) * 25 }
  function least(new, counted, allowed) { return new || counted < allowed ? counted : allowed }
  BEGIN {
    while ((getline line < table) > 0) {
      if (line ~ /^#/) { head = head line "\n"; continue }
      split(line, row, " "); code[row[1]] = row[2]; tests[row[1]] = row[3]
    }
    printf "%-24s %7s %7s %15s\n", "lines by room", "code", "tests", "allowed"
  }
  {
    new = !($1 in code)
    printf "%-24s %7d %7d %7s %7s\n", $1, $2, $3, new ? "-" : code[$1], new ? "-" : tests[$1]
    total += $2; totalTests += $3
    lowered[$1] = least(new, roundUp($2), code[$1])
    loweredTests[$1] = least(new, roundUp($3), tests[$1])
    order[++rooms] = $1
    if (new) faults = faults sprintf("rooms: %s is new: what did its lines replace? Add it by scripts/rooms.sh --write\n", $1)
    else {
      if ($2 > code[$1]) faults = faults sprintf("rooms: %s has %d lines of code, %d are allowed\n", $1, $2, code[$1])
      if ($3 > tests[$1]) faults = faults sprintf("rooms: %s has %d lines of tests, %d are allowed\n", $1, $3, tests[$1])
    }
  }
  END {
    printf "%-24s %7d %7d\n", "all", total, totalTests
    if (write == "--write") {
      printf "%s", head > table
      for (i = 1; i <= rooms; i++) printf "%s %d %d\n", order[i], lowered[order[i]], loweredTests[order[i]] > table
      exit
    }
    if (faults == "") exit
    fflush()
    printf "%s%s", faults, "rooms: take lines away in the same room: look for what says the same, what a library gives, what nobody uses. Where a\n" \
      "room must grow, raise its line in " table " by hand, and name in the commit what was removed for it elsewhere.\n" > "/dev/stderr"
    exit 1
  }'

for against in origin/main main; do
  if git rev-parse --quiet --verify "$against^{commit}" >/dev/null; then
    before=$({ git show "$against:$table" 2>/dev/null || true; } | awk '!/^#/ { n += $2 + $3 } END { print n + 0 }')
    after=$(awk '!/^#/ { n += $2 + $3 } END { print n }' "$table")
    if ((before > 0 && after > before + 300)) && [[ -z $(git log --grep='^Removed: ' --format=%h "$against..HEAD") ]]; then
      echo "rooms: $table allows $((after - before)) lines more than $against: say in a commit what was taken away (Removed: ...)" >&2
      exit 1
    fi
    break
  fi
done
