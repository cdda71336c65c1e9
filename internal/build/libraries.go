package build

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

//go:generate go -C ../tools/release run ./licenses

// libraries.json has all modules of all released variants and platforms, without
// versions: Go supplies those of this build.
//
//go:embed libraries.json
var libraries []byte

// License is a licence of a library, or of a part of it.
type License struct {
	// SPDX is its identifier, or several with AND between them; NOTICE is no licence, and
	// goes with one.
	SPDX string `json:"spdx"`
	Text string `json:"text"`
}

// Library is third-party code in this build: a Go module, "std" for Go itself, or an
// embedded file.
type Library struct {
	Name     string    `json:"name"`
	Version  string    `json:"version,omitempty"`
	Licenses []License `json:"licenses"`
}

// SPDX returns the identifiers of its licences, without those of notices.
func (l Library) SPDX() string {
	var all []string
	for _, license := range l.Licenses {
		if license.SPDX != "NOTICE" {
			all = append(all, strings.Split(license.SPDX, " AND ")...)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " AND ")
}

// Libraries returns all that this build is made of, itself first, the others by name.
// It fails if the build has a module whose licence is not recorded, which a test
// prevents.
func Libraries() ([]Library, error) {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, fmt.Errorf("this program was built without Go modules, so its libraries are unknown")
	}
	return librariesOf(b)
}

func librariesOf(b *debug.BuildInfo) ([]Library, error) {
	var listed struct {
		Modules map[string][]License `json:"modules"`
		Texts   map[string]string    `json:"texts"`
	}
	if err := json.Unmarshal(libraries, &listed); err != nil {
		return nil, err
	}
	of := func(name, version string) (Library, error) {
		l := Library{name, version, slices.Clone(listed.Modules[name])}
		if len(l.Licenses) == 0 {
			return l, fmt.Errorf("the licence of %s is not in internal/build/libraries.json; run: make generate", name)
		}
		for i := range l.Licenses {
			l.Licenses[i].Text = listed.Texts[l.Licenses[i].Text]
		}
		return l, nil
	}
	versions := map[string]string{"std": runtime.Version()}
	for name := range listed.Modules {
		if first, _, _ := strings.Cut(name, "/"); name != "std" && first == name {
			versions[name] = "" // embedded, and no module
		}
	}
	for _, m := range b.Deps {
		if m.Replace != nil {
			m.Version = m.Replace.Version
		}
		versions[m.Path] = m.Version
	}
	self, err := of(b.Main.Path, Version())
	all := []Library{self}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if err != nil {
			return nil, err
		}
		var l Library
		l, err = of(name, versions[name])
		all = append(all, l)
	}
	return all, err
}
