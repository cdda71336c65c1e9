package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// packageOf reads @cdktn/provider-NAME.
type packageOf struct{ dir, name string }

// unit is one generated file: the JavaScript has flags and types, the declarations say
// which properties are blocks.
type unit struct{ js, types string }

var (
	property = regexp.MustCompile(`(?m)^    // (\w+) - computed: (true|false), optional: (true|false), required: (true|false)\n`)
	classRef = regexp.MustCompile(`^    _\w+ = new (\w+?)(List|OutputReference|Map)\(this, "\w+"(?:, (true|false))?\)`)
	getter   = regexp.MustCompile(`get(String|Number|Boolean|List|StringMap|NumberMap|BooleanMap|NumberList|Any)Attribute\('`)
	mainly   = regexp.MustCompile(`(?m)^class (\w+) extends cdktn\.Terraform(?:Resource|DataSource|Provider) `)
)

func (p packageOf) provider() (*block, error) {
	u, err := p.read("provider")
	if err != nil {
		return nil, err
	}
	// A provider's properties have no types in the class; its HCL attributes have.
	main := mainly.FindStringSubmatch(u.js)
	b := &block{Attributes: map[string]*attribute{}, Blocks: map[string]*nested{}}
	hcl := regexp.MustCompile(`(?m)^            (\w+): \{\n\s+value: .*\n\s+isBlock: (\w+),\n\s+type: "(\w+)",\n\s+storageClassType: "(\w+)"`)
	for _, m := range hcl.FindAllStringSubmatch(u.js[strings.LastIndex(u.js, "synthesizeHclAttributes()"):], -1) {
		switch {
		case m[1] == "alias":
		case m[2] == "true":
			b.Blocks[m[1]] = &nested{NestingMode: m[3], Block: p.plain(u, strings.TrimSuffix(m[4], "List"))}
		default:
			b.Attributes[m[1]] = &attribute{Type: simple(m[3], m[4]), Optional: true}
		}
	}
	if len(main) == 0 || len(b.Attributes) == 0 {
		return nil, fmt.Errorf("no provider class in %s", p.dir)
	}
	return b, nil
}

// plain reads a struct that has no class of its own, as those of providers.
func (p packageOf) plain(u unit, name string) *block {
	b := &block{Attributes: map[string]*attribute{}}
	body := between(u.js, "\nfunction "+lower(name)+"ToHclTerraform(", "\n}\n")
	hcl := regexp.MustCompile(`(?m)^        (\w+): \{\n\s+value: .*\n\s+isBlock: \w+,\n\s+type: "(\w+)",\n\s+storageClassType: "(\w+)"`)
	for _, m := range hcl.FindAllStringSubmatch(body, -1) {
		b.Attributes[m[1]] = &attribute{Type: simple(m[2], m[3]), Optional: true}
	}
	return b
}

func simple(kind, storage string) any {
	element := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(storage, "List"), "Map"), "Set")
	if element == "boolean" {
		element = "bool"
	}
	if kind == "simple" {
		return element
	}
	return []any{kind, element}
}

func (p packageOf) resource(kind, name string) (*block, error) {
	dir := strings.ReplaceAll(strings.TrimPrefix(name, p.name+"_"), "_", "-")
	if kind == "data" {
		dir = "data-" + p.name + "-" + dir
	}
	u, err := p.read(dir)
	if err != nil {
		return nil, err
	}
	main := mainly.FindStringSubmatch(u.js)
	if main == nil {
		return nil, fmt.Errorf("no class in %s", dir)
	}
	return u.block(main[1], main[1]+"Config")
}

func (p packageOf) read(dir string) (unit, error) {
	js, err := os.ReadFile(filepath.Join(p.dir, dir, "index.js"))
	if err != nil {
		return unit{}, err
	}
	types, err := os.ReadFile(filepath.Join(p.dir, dir, "index.d.ts"))
	return unit{string(js), string(types)}, err
}

// block reads the properties of a class, whose interface in the declarations says which
// of them are blocks.
func (u unit) block(class, of string) (*block, error) {
	b := &block{Attributes: map[string]*attribute{}, Blocks: map[string]*nested{}}
	body := between(u.js, "\nclass "+class+" extends ", "\n}\n")
	if body == "" {
		return nil, fmt.Errorf("no class %s", class)
	}
	declared := between(u.types, "\nexport interface "+of+" ", "\n}\n")
	for _, at := range property.FindAllStringSubmatchIndex(body, -1) {
		name, rest := body[at[2]:at[3]], body[at[1]:]
		a := &attribute{Computed: body[at[4]:at[5]] == "true", Optional: body[at[6]:at[7]] == "true", Required: body[at[8]:at[9]] == "true"}
		a.WriteOnly = strings.HasSuffix(name, "_wo")
		ref := classRef.FindStringSubmatch(rest)
		if ref == nil {
			a.Type = typeOf(rest[:strings.Index(rest, "\n    }\n")])
			b.Attributes[name] = a
			continue
		}
		inner, err := u.block(ref[1]+"OutputReference", ref[1])
		if err != nil {
			return nil, err
		}
		mode := u.nesting(ref)
		if !strings.Contains(declared, "    * "+name+" block\n") {
			a.Type = object(inner, mode)
			b.Attributes[name] = a
			continue
		}
		n := &nested{NestingMode: mode, Block: inner}
		if a.Required {
			n.MinItems = 1
		}
		if ref[2] == "OutputReference" && mode != "single" {
			n.MaxItems = 1
		}
		if mode == "single" {
			n.MinItems = 0
		}
		b.Blocks[name] = n
	}
	return b, nil
}

// nesting says how a struct is nested: a list, a set, or one alone.
func (u unit) nesting(ref []string) string {
	kind := regexp.MustCompile(`type: "(\w+)",\n\s+storageClassType: "` + ref[1] + `(?:List|Map)?"`).FindStringSubmatch(u.js)
	switch {
	case ref[2] == "Map":
		return "map"
	case ref[3] == "true":
		return "set"
	case kind != nil && kind[1] == "struct":
		return "single"
	case kind != nil:
		return kind[1]
	}
	return "list"
}

// object is the type of a nested struct that is no block.
func object(b *block, mode string) any {
	fields := map[string]any{}
	for name, a := range b.Attributes {
		fields[name] = a.Type
	}
	for name, n := range b.Blocks {
		fields[name] = object(n.Block, n.NestingMode)
	}
	if mode == "single" {
		return []any{"object", fields}
	}
	return []any{mode, []any{"object", fields}}
}

// typeOf reads the type from the accessor.
func typeOf(accessor string) any {
	if strings.Contains(accessor, "cdktn.StringMap(") {
		return []any{"map", "string"}
	}
	m := getter.FindStringSubmatch(accessor)
	if m == nil {
		return "string"
	}
	set := strings.Contains(accessor, "Fn.tolist(")
	list := "list"
	if set {
		list = "set"
	}
	switch m[1] {
	case "Number":
		return "number"
	case "Boolean":
		return "bool"
	case "List":
		return []any{list, "string"}
	case "NumberList":
		return []any{list, "number"}
	case "StringMap":
		return []any{"map", "string"}
	case "NumberMap":
		return []any{"map", "number"}
	case "BooleanMap":
		return []any{"map", "bool"}
	}
	return "string"
}

func between(text, from, to string) string {
	i := strings.Index(text, from)
	if i < 0 {
		return ""
	}
	text = text[i:]
	if j := strings.Index(text, to); j >= 0 {
		return text[:j+len(to)]
	}
	return text
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }
