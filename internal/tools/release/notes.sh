#!/bin/sh
# Prints the section of CHANGELOG.md that a version has: notes.sh v1.2.3 [FILE]
set -eu
version=${1:?"say of which version"}
notes=$(awk -v heading="## [${version#v}]" 'index($0, "## [") == 1 {on = index($0, heading) == 1; next} on' "${2:-CHANGELOG.md}")
printf '%s\n' "$notes" | grep -q '^- ' || {
	echo "the section $version of CHANGELOG.md is missing or says nothing" >&2
	exit 1
}
printf '%s\n' "$notes"
