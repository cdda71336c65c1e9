// Command licenses writes internal/build/libraries.json: whose code is in a build of
// Homeward, whichever its platform and its tags are, under which licence, and the texts.
// google/go-licenses finds and names them. It fails where a licence is none of those that
// may be in, or could not be named.
//
//	go generate ./internal/build
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-licenses/v2/licenses"
	"k8s.io/klog/v2"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

const file = "internal/build/libraries.json"

// allowed are the kinds of licences that a program under Apache 2.0 may be linked with and
// handed on, unmodified. What asks for the whole program's source is not among them.
var allowed = []licenses.Type{licenses.Notice, licenses.Permissive, licenses.Unencumbered, licenses.Reciprocal}

// embedded are files of others that are in the program without being Go.
var embedded = map[string]string{"htmx.org": "internal/console/static/htmx.LICENSE"}

// part is one licence of a module, as internal/build reads it.
type part struct {
	SPDX string `json:"spdx"`
	Text string `json:"text"` // key of texts
}

type document struct {
	Modules map[string][]part `json:"modules"`
	Texts   map[string]string `json:"texts"`
}

func main() {
	klog.SetLogger(klog.Logger{}) // it warns of every file in assembler
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := recipe.Root()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	d, err := collect(ctx)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(d); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

func collect(ctx context.Context) (*document, error) {
	classifier, err := licenses.NewClassifier()
	if err != nil {
		return nil, err
	}
	c := collector{classifier: classifier, document: document{map[string][]part{}, map[string]string{}}}
	for _, v := range recipe.Variants {
		flags, err := recipe.Flags(ctx, ".", v)
		if err != nil {
			return nil, err
		}
		// Who builds it with cgo, as plain `go build` does, has a library more.
		for _, at := range [][2]string{{"linux", "0"}, {"linux", "1"}, {"darwin", "0"}} {
			if err := errors.Join(os.Setenv("GOOS", at[0]), os.Setenv("CGO_ENABLED", at[1]), os.Setenv("GOFLAGS", flags)); err != nil {
				return nil, err
			}
			if err := c.build(ctx); err != nil {
				return nil, err
			}
		}
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	c.file("std", filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE"))
	for name, path := range embedded {
		c.file(name, path)
	}
	return &c.document, errors.Join(c.errs...)
}

type collector struct {
	classifier licenses.Classifier
	document
	errs []error
}

// build adds what one build is made of.
func (c *collector) build(ctx context.Context) error {
	libraries, err := licenses.Libraries(ctx, c.classifier, false, nil, "./cmd/homeward")
	if err != nil {
		return err
	}
	dirs, err := modules(ctx)
	if err != nil {
		return err
	}
	for _, l := range libraries {
		name := owner(dirs, l.Packages[0])
		if l.LicenseFile == "" {
			c.errs = append(c.errs, fmt.Errorf("%s: no licence was found for %s", name, l.Packages[0]))
			continue
		}
		c.add(name, l.LicenseFile, l.Licenses)
		// Apache 2.0, section 4 (d): whoever hands it on hands its NOTICE on.
		notices, err := filepath.Glob(filepath.Join(dirs[name], "NOTICE*"))
		if err != nil {
			return err
		}
		for _, n := range notices {
			if filepath.Ext(n) != ".go" {
				c.add(name, n, []licenses.License{{Name: "NOTICE", Type: licenses.Notice}})
			}
		}
	}
	return nil
}

// file adds what is no Go module.
func (c *collector) file(name, path string) {
	found, err := c.classifier.Identify(path)
	if err == nil && len(found) == 0 {
		err = errors.New("it is no licence that is known")
	}
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %s: %w", name, path, err))
		return
	}
	c.add(name, path, found)
}

func (c *collector) add(name, path string, found []licenses.License) {
	text, err := os.ReadFile(path)
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	sum := sha256.Sum256(text)
	key := hex.EncodeToString(sum[:8])
	var names []string
	for _, l := range found {
		if !slices.Contains(allowed, l.Type) {
			err := fmt.Errorf("%s is under %s (%s), which may not be in: %s", name, l.Name, l.Type, path)
			if !slices.ContainsFunc(c.errs, func(e error) bool { return e.Error() == err.Error() }) {
				c.errs = append(c.errs, err)
			}
		}
		if l.Name == "BSD-0-Clause" {
			l.Name = "0BSD" // SPDX's name
		}
		names = append(names, l.Name)
	}
	slices.Sort(names)
	p := part{strings.Join(slices.Compact(names), " AND "), key}
	if slices.Contains(c.Modules[name], p) {
		return
	}
	c.Texts[key] = string(text)
	c.Modules[name] = append(c.Modules[name], p)
	slices.SortFunc(c.Modules[name], func(a, b part) int { return strings.Compare(a.SPDX+a.Text, b.SPDX+b.Text) })
}

// modules are the directories of the modules that a build is made of.
func modules(ctx context.Context) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./cmd/homeward").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			dirs[path] = dir
		}
	}
	return dirs, nil
}

// owner is the module of a package: the longest path that it begins with.
func owner(dirs map[string]string, pkg string) (path string) {
	for m := range dirs {
		if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(path) {
			path = m
		}
	}
	return path
}
