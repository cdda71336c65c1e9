#!/bin/sh
# Verifies what was downloaded of a release, with OpenSSH and sha256sum or shasum alone:
#   verify.sh DIRECTORY [ALLOWED_SIGNERS]
# The directory has checksums.txt, checksums.txt.sig and any of the files in the list.
# .github/allowed_signers has the signers: take it from the repository, and not from the
# place of the release.
set -eu
dir=${1:?"say in which directory the release is"}
signers=${2:-$(dirname "$0")/../../../.github/allowed_signers}
ssh-keygen -Y verify -f "$signers" -I releases@homeward.io -n file -s "$dir/checksums.txt.sig" <"$dir/checksums.txt"
cd "$dir"
if command -v sha256sum >/dev/null; then
	sha256sum --check --strict --ignore-missing checksums.txt
else
	shasum -a 256 --check --strict --ignore-missing checksums.txt
fi
