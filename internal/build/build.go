// Package build reports what this program was built from: its version, the commit, and
// its libraries with their licences. It imports no other package of the module.
package build

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// A release sets these: -ldflags '-X
// github.com/homeward-io/homeward/internal/build.version=v1.2.3'. For any other build Go supplies
// the repository's revision.
var version, commit, date string

// Info describes a build.
type Info struct {
	// Version is a tag, such as v1.2.3, or what Go or `git describe` derive from a
	// commit after one; "dev" if it is unknown.
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Date is the commit's, in RFC 3339, and not when it was built: the same sources are
	// the same program.
	Date string `json:"date,omitempty"`
	// Modified: the sources were not those of the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Tags are those of the build, such as aws, which opens s3:// and awskms://.
	Tags []string `json:"tags,omitempty"`
}

// unknown is the version of a build without one.
const unknown = "dev"

// Read returns what this program was built from.
var Read = sync.OnceValue(func() Info {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		b = &debug.BuildInfo{}
	}
	return describe(b)
})

// Version returns the version of [Read]: nodes announce it to each other, for people to
// read.
func Version() string { return Read().Version }

func describe(b *debug.BuildInfo) Info {
	says := map[string]string{}
	for _, s := range b.Settings {
		says[s.Key] = s.Value
	}
	i := Info{
		Version: cmp.Or(version, b.Main.Version), Commit: cmp.Or(commit, says["vcs.revision"]), Date: cmp.Or(date, says["vcs.time"]),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		// A build with a version of its own was checked already.
		Modified: version == "" && says["vcs.modified"] == "true",
	}
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = unknown
	}
	if tags := says["-tags"]; tags != "" {
		i.Tags = strings.Split(tags, ",")
	}
	return i
}
