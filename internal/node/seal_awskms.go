//go:build awskms || aws

package node

import _ "gocloud.dev/secrets/awskms" // opened by its URL, see openSealKey
