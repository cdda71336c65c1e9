package node

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

// drivers maps the schemes of URLs of buckets and sealing keys to the build tag that
// includes the library; "" is in every build. homeward-cloud has them all. See
// docs/design/providers.md.
var drivers = map[string]struct{ buckets, keys []string }{
	"":           {[]string{"file"}, []string{"base64key"}},
	"aws":        {[]string{"s3"}, []string{"awskms"}},
	"gcp":        {[]string{"gs"}, []string{"gcpkms"}},
	"azure":      {[]string{"azblob"}, []string{"azurekeyvault"}},
	"hashivault": {nil, []string{"hashivault"}},
}

// driverOf returns the build tag that can open a scheme.
func driverOf(scheme string) (tag string, ok bool) {
	for tag, d := range drivers {
		if slices.Contains(d.buckets, scheme) || slices.Contains(d.keys, scheme) {
			return tag, true
		}
	}
	return "", false
}

// notBuiltIn describes what to do about a scheme that this build cannot open; here are
// those that it can.
func notBuiltIn(scheme string, here []string) string {
	if tag, ok := driverOf(scheme); ok && tag != "" && !slices.Contains(here, scheme) {
		return fmt.Sprintf("the driver of %s:// is not in this build; take homeward-cloud, image or archive, which has it, or build with -tags %s", scheme, tag)
	}
	return fmt.Sprintf("this build opens %s://…", strings.Join(here, "://…, "))
}

// cannotOpen returns why this build cannot open a bucket of that URL, "" if it can.
func cannotOpen(bucket string) string {
	u, err := url.Parse(bucket)
	if err == nil && slices.Contains(bucketSchemes(), u.Scheme) {
		return ""
	}
	scheme, _, _ := strings.Cut(bucket, "://")
	return notBuiltIn(scheme, bucketSchemes())
}

// bucketSchemes are those of buckets that outlast this process and that others can
// read.
func bucketSchemes() []string {
	return slices.DeleteFunc(blob.DefaultURLMux().BucketSchemes(), func(s string) bool { return s == memblob.Scheme })
}
