//go:build azureblob || azure

package node

import _ "gocloud.dev/blob/azureblob" // opened by its URL, see OpenBlobs
