//go:build azurekeyvault || azure

package node

import _ "gocloud.dev/secrets/azurekeyvault" // opened by its URL, see openSealKey
