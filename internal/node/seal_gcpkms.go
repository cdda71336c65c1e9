//go:build gcpkms

package node

import _ "gocloud.dev/secrets/gcpkms" // opened by its URL, see openSealKey
