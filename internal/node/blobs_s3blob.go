//go:build s3blob || aws

package node

import _ "gocloud.dev/blob/s3blob" // opened by its URL, see OpenBlobs
