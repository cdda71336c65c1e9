// Package buckettest has buckets for tests of what is kept in them: directories, and with
// the build tag aws a server that speaks S3, so that the same tests run on both:
// make test-cloud.
package buckettest
