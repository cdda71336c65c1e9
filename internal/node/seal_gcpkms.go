//go:build gcpkms || gcp

package node

import _ "gocloud.dev/secrets/gcpkms" // opened by its URL, see openSealKey
