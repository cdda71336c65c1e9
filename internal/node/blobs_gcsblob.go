//go:build gcsblob || gcp

package node

import _ "gocloud.dev/blob/gcsblob" // opened by its URL, see OpenBlobs
