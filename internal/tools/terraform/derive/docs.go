package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// docsOf reads the "Schema" sections that terraform-plugin-docs generates.
type docsOf struct{ dir, name string }

var (
	line = regexp.MustCompile("^- `(\\w+)` \\(([^)]*)\\)")
	head = regexp.MustCompile("^### Nested Schema for `([\\w.]+)`")
)

func (d docsOf) provider() (*block, error) {
	b, err := d.page("index.md")
	if err != nil || len(b.Attributes) > 0 {
		return b, err
	}
	// Helm's index is written by hand: a list of arguments, and those of two objects.
	text, err := os.ReadFile(filepath.Join(d.dir, "index.md"))
	if err != nil {
		return nil, err
	}
	return byHand(string(text)), nil
}

func (d docsOf) resource(kind, name string) (*block, error) {
	dir := "resources"
	if kind == "data" {
		dir = "data-sources"
	}
	b, err := d.page(filepath.Join(dir, strings.TrimPrefix(name, d.name+"_")+".md"))
	if err == nil && len(b.Attributes) == 0 {
		err = fmt.Errorf("its page has no schema")
	}
	return b, err
}

// page reads one page: first the properties at the top, then those of each nested part.
func (d docsOf) page(path string) (*block, error) {
	text, err := os.ReadFile(filepath.Join(d.dir, path))
	if err != nil {
		return nil, err
	}
	parts := map[string]map[string]*attribute{}
	kinds := map[string]string{}
	part, flag := "", ""
	_, schema, _ := strings.Cut(string(text), "\n## Schema\n")
	for _, l := range strings.Split(schema, "\n") {
		if m := head.FindStringSubmatch(l); m != nil {
			part = m[1]
		}
		switch {
		case strings.HasPrefix(l, "## "):
			return &block{Attributes: assemble(parts, kinds, "")}, nil
		case strings.HasPrefix(strings.TrimLeft(l, "# "), "Required"):
			flag = "Required"
		case strings.HasPrefix(strings.TrimLeft(l, "# "), "Optional"):
			flag = "Optional"
		case strings.HasPrefix(strings.TrimLeft(l, "# "), "Read-Only"):
			flag = "Read-Only"
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		if parts[part] == nil {
			parts[part] = map[string]*attribute{}
		}
		kind, _, _ := strings.Cut(m[2], ", ")
		parts[part][m[1]] = &attribute{
			Type: named(kind), Sensitive: strings.Contains(m[2], "Sensitive"), WriteOnly: strings.Contains(m[2], "Write-only"),
			// What is optional may be computed as well; pages do not tell.
			Required: flag == "Required", Optional: flag == "Optional", Computed: flag == "Read-Only" || flag == "Optional" && part == "",
		}
		kinds[strings.TrimPrefix(part+"."+m[1], ".")] = kind
	}
	return &block{Attributes: assemble(parts, kinds, "")}, nil
}

// assemble puts nested parts into what they are parts of.
func assemble(parts map[string]map[string]*attribute, kinds map[string]string, at string) map[string]*attribute {
	for name, a := range parts[at] {
		path := strings.TrimPrefix(at+"."+name, ".")
		if parts[path] == nil {
			continue
		}
		mode := "single"
		for _, m := range []string{"List", "Set", "Map"} {
			if strings.Contains(kinds[path], m) {
				mode = strings.ToLower(m)
			}
		}
		a.Type, a.Nested = nil, &nestedType{assemble(parts, kinds, path), mode}
	}
	return parts[at]
}

// named is the type that a page names.
func named(kind string) any {
	if of, element, ok := strings.Cut(kind, " of "); ok {
		return []any{strings.ToLower(of), named(element)}
	}
	switch kind {
	case "Number":
		return "number"
	case "Boolean":
		return "bool"
	}
	return "string"
}

var argument = regexp.MustCompile("(?m)^\\* `(\\w+)` - ")

// byHand reads Helm's argument reference. Types are told by name: what has many is a
// list or a map, and two are yes or no.
func byHand(text string) *block {
	types := map[string]any{
		"debug": "bool", "insecure": "bool", "burst_limit": "number", "qps": "number",
		"config_paths": []any{"list", "string"}, "args": []any{"list", "string"}, "env": []any{"map", "string"},
	}
	read := func(section string) map[string]*attribute {
		all := map[string]*attribute{}
		for _, m := range argument.FindAllStringSubmatch(section, -1) {
			t := types[m[1]]
			if t == nil {
				t = "string"
			}
			all[m[1]] = &attribute{Type: t, Optional: true}
		}
		return all
	}
	top := read(between(text, "The following arguments", "The `kubernetes` block"))
	kubernetes := read(between(text, "The `kubernetes` block", "The `registries` block"))
	registries := read(between(text, "The `registries` block", "## Experiments"))
	exec := map[string]*attribute{}
	for _, name := range []string{"api_version", "command", "args", "env"} {
		exec[name] = kubernetes[name]
		delete(kubernetes, name)
	}
	kubernetes["exec"] = &attribute{Nested: &nestedType{exec, "single"}, Optional: true}
	top["kubernetes"] = &attribute{Nested: &nestedType{kubernetes, "single"}, Optional: true}
	top["registries"] = &attribute{Nested: &nestedType{registries, "list"}, Optional: true}
	return &block{Attributes: top}
}
