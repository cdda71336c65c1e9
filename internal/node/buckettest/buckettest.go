// Package buckettest provides buckets for tests: directories, and with the build tag
// aws a server that implements S3, so that the same tests run on both: make release-check.
package buckettest
