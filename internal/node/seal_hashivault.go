//go:build hashivault

package node

import _ "gocloud.dev/secrets/hashivault" // opened by its URL, see openSealKey
