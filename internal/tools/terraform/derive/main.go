// Derive writes the provider schemas that the stand-in serves, in the form of
// `terraform providers schema -json`, for the resources that terraform/ uses and no
// others. Who has the real providers can put that command's output in their place.
//
//	go run ./derive -cdktn DIR -provider aws   -use ../../../terraform -o standin/schemas/aws.json
//	go run ./derive -docs DIR  -provider helm  -use ../../../terraform -o standin/schemas/helm.json
//
// With -cdktn, DIR is the lib directory of the npm package @cdktn/provider-aws, which is
// generated from the provider's own schema: each property's comment says whether it is
// required, optional or computed, and the accessor below it has its type. With -docs, DIR
// is the docs directory of the provider's repository, whose "Schema" sections
// terraform-plugin-docs generates from the schema.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// schemas is one provider's part of what `terraform providers schema -json` prints.
type schemas struct {
	// Source says what the schemas were derived from, and its licence.
	Source      string             `json:"source"`
	Provider    *schema            `json:"provider"`
	Resources   map[string]*schema `json:"resource_schemas"`
	DataSources map[string]*schema `json:"data_source_schemas"`
}

type schema struct {
	Version int    `json:"version"`
	Block   *block `json:"block"`
}

type block struct {
	Attributes map[string]*attribute `json:"attributes,omitempty"`
	Blocks     map[string]*nested    `json:"block_types,omitempty"`
}

type attribute struct {
	Type      any         `json:"type,omitempty"`
	Nested    *nestedType `json:"nested_type,omitempty"`
	Required  bool        `json:"required,omitempty"`
	Optional  bool        `json:"optional,omitempty"`
	Computed  bool        `json:"computed,omitempty"`
	Sensitive bool        `json:"sensitive,omitempty"`
	WriteOnly bool        `json:"write_only,omitempty"`
}

type nestedType struct {
	Attributes  map[string]*attribute `json:"attributes"`
	NestingMode string                `json:"nesting_mode"`
}

type nested struct {
	NestingMode string `json:"nesting_mode"`
	Block       *block `json:"block"`
	MinItems    int    `json:"min_items,omitempty"`
	MaxItems    int    `json:"max_items,omitempty"`
}

// deriver finds the schema of a provider, a resource or a data source.
type deriver interface {
	provider() (*block, error)
	resource(kind, name string) (*block, error)
}

func main() {
	cdktn := flag.String("cdktn", "", "lib directory of the npm package")
	docs := flag.String("docs", "", "docs directory of the provider's repository")
	provider := flag.String("provider", "", "the provider's type, as aws")
	use := flag.String("use", "", "directory whose *.tf files say which resources are used")
	source := flag.String("source", "", "what this is derived from, with version and licence")
	out := flag.String("o", "", "file to write")
	flag.Parse()
	var from deriver = docsOf{*docs, *provider}
	if *cdktn != "" {
		from = packageOf{*cdktn, *provider}
	}
	if err := derive(from, *provider, *use, *source, *out); err != nil {
		fmt.Fprintln(os.Stderr, "derive:", err)
		os.Exit(1)
	}
}

func derive(from deriver, provider, use, source, out string) error {
	all := schemas{Source: source, Resources: map[string]*schema{}, DataSources: map[string]*schema{}}
	b, err := from.provider()
	if err != nil {
		return err
	}
	all.Provider = &schema{Block: b}
	used, err := usedIn(use, provider)
	if err != nil {
		return err
	}
	for _, u := range used {
		b, err := from.resource(u[0], u[1])
		if err != nil {
			return fmt.Errorf("%s %s: %w", u[0], u[1], err)
		}
		if u[0] == "data" {
			all.DataSources[u[1]] = &schema{Block: b}
		} else {
			all.Resources[u[1]] = &schema{Block: b}
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

var declared = regexp.MustCompile(`(?m)^(resource|data) "([a-z0-9]+_[a-z0-9_]+)"`)

// usedIn lists what the provider's resources and data sources the *.tf files declare.
func usedIn(dir, provider string) ([][2]string, error) {
	var used [][2]string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".tf" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if u := [2]string{m[1], m[2]}; strings.HasPrefix(m[2], provider+"_") && !slices.Contains(used, u) {
				used = append(used, u)
			}
		}
		return err
	})
	return used, err
}
