// Command sbom writes the bill of materials of a program of Homeward's, in CycloneDX: the
// modules that Go says are in it, with their checksums, and the licences that
// internal/build/libraries.json has of them. The same program gives the same bill.
//
//	sbom PROGRAM FILE
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, file string) error {
	bom, err := billOf(program)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// module is what of a Go module stands in a bill.
type module struct{ path, version, sum string }

func billOf(program string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	licences, err := readLicences()
	if err != nil {
		return nil, err
	}
	version, at, err := saysOfItself(data)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	self := component(module{info.Main.Path, version, ""}, licences)
	self.Type, self.Name = cdx.ComponentTypeApplication, "homeward"
	self.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}}

	modules := []module{{"std", strings.TrimPrefix(info.GoVersion, "go"), ""}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		modules = append(modules, module{d.Path, d.Version, d.Sum})
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.path, b.path) })
	bom := cdx.NewBOM()
	// Of the program's bytes, and not by chance.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, digest[:]).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: at, Component: &self}
	var all []cdx.Component
	var refs []string
	for _, m := range modules {
		c := component(m, licences)
		if c.Licenses == nil {
			return nil, fmt.Errorf("the licence of %s is not known; run: make generate", m.path)
		}
		all, refs = append(all, c), append(refs, c.BOMRef)
	}
	bom.Components = &all
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	return bom, nil
}

// saysOfItself is the version in a program, which is told to the linker and not to Go, and
// SOURCE_DATE_EPOCH as the time of the bill.
func saysOfItself(program []byte) (version, at string, err error) {
	version = os.Getenv("VERSION")
	if version == "" {
		return "", "", errors.New("set VERSION to the program's")
	}
	if !bytes.Contains(program, []byte(version)) {
		return "", "", fmt.Errorf("the program says nothing of version %s", version)
	}
	var seconds int64
	if _, err := fmt.Sscan(os.Getenv("SOURCE_DATE_EPOCH"), &seconds); err != nil {
		return "", "", fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return version, time.Unix(seconds, 0).UTC().Format(time.RFC3339), nil
}

func component(m module, licences map[string]string) cdx.Component {
	purl := "pkg:golang/" + m.path + "@" + m.version
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: purl}
	if l := licences[m.path]; l != "" {
		c.Licenses = &cdx.Licenses{{Expression: l}}
	}
	// "h1:" is a SHA-256 over the module's files, as go.sum has it.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:")); err == nil && len(sum) == sha256.Size {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}

// readLicences are SPDX expressions by module.
func readLicences() (map[string]string, error) {
	root, err := recipe.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "internal/build/libraries.json"))
	if err != nil {
		return nil, err
	}
	var known struct {
		Modules map[string][]struct {
			SPDX string `json:"spdx"`
		} `json:"modules"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, err
	}
	licences := map[string]string{}
	for path, parts := range known.Modules {
		var all []string
		for _, p := range parts {
			if p.SPDX != "NOTICE" {
				all = append(all, strings.Split(p.SPDX, " AND ")...)
			}
		}
		slices.Sort(all)
		licences[path] = strings.Join(slices.Compact(all), " AND ")
	}
	return licences, nil
}
