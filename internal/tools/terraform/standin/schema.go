package main

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The form of `terraform providers schema -json`, as "JSON Configuration Syntax:
// providers schema" describes it.
type (
	schemas struct {
		Provider    *schema            `json:"provider"`
		Resources   map[string]*schema `json:"resource_schemas"`
		DataSources map[string]*schema `json:"data_source_schemas"`
	}
	schema struct {
		Version int64 `json:"version"`
		Block   block `json:"block"`
	}
	block struct {
		Attributes map[string]*attribute `json:"attributes"`
		Blocks     map[string]*nested    `json:"block_types"`
	}
	attribute struct {
		Type      json.RawMessage `json:"type"`
		Nested    *nestedType     `json:"nested_type"`
		Required  bool            `json:"required"`
		Optional  bool            `json:"optional"`
		Computed  bool            `json:"computed"`
		Sensitive bool            `json:"sensitive"`
		WriteOnly bool            `json:"write_only"`
	}
	nestedType struct {
		Attributes  map[string]*attribute `json:"attributes"`
		NestingMode string                `json:"nesting_mode"`
	}
	nested struct {
		NestingMode string `json:"nesting_mode"`
		Block       block  `json:"block"`
		MinItems    int64  `json:"min_items"`
		MaxItems    int64  `json:"max_items"`
	}
)

var (
	blockModes = map[string]tfprotov6.SchemaNestedBlockNestingMode{
		"single": tfprotov6.SchemaNestedBlockNestingModeSingle, "list": tfprotov6.SchemaNestedBlockNestingModeList,
		"set": tfprotov6.SchemaNestedBlockNestingModeSet, "map": tfprotov6.SchemaNestedBlockNestingModeMap,
	}
	objectModes = map[string]tfprotov6.SchemaObjectNestingMode{
		"single": tfprotov6.SchemaObjectNestingModeSingle, "list": tfprotov6.SchemaObjectNestingModeList,
		"set": tfprotov6.SchemaObjectNestingModeSet, "map": tfprotov6.SchemaObjectNestingModeMap,
	}
)

func (s *schemas) convert() (*tfprotov6.GetProviderSchemaResponse, error) {
	r := &tfprotov6.GetProviderSchemaResponse{
		ResourceSchemas: map[string]*tfprotov6.Schema{}, DataSourceSchemas: map[string]*tfprotov6.Schema{},
		ServerCapabilities: &tfprotov6.ServerCapabilities{GetProviderSchemaOptional: true},
	}
	var err error
	if r.Provider, err = s.Provider.convert(); err != nil {
		return nil, err
	}
	for name, from := range s.Resources {
		if r.ResourceSchemas[name], err = from.convert(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, from := range s.DataSources {
		if r.DataSourceSchemas[name], err = from.convert(); err != nil {
			return nil, fmt.Errorf("data %s: %w", name, err)
		}
	}
	return r, nil
}

func (s *schema) convert() (*tfprotov6.Schema, error) {
	b, err := s.Block.convert()
	return &tfprotov6.Schema{Version: s.Version, Block: b}, err
}

func (b *block) convert() (*tfprotov6.SchemaBlock, error) {
	attributes, err := convertAll(b.Attributes)
	if err != nil {
		return nil, err
	}
	to := &tfprotov6.SchemaBlock{Attributes: attributes}
	for name, from := range b.Blocks {
		inner, err := from.Block.convert()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		mode, ok := blockModes[from.NestingMode]
		if !ok {
			return nil, fmt.Errorf("%s: unknown nesting mode %q", name, from.NestingMode)
		}
		to.BlockTypes = append(to.BlockTypes, &tfprotov6.SchemaNestedBlock{
			TypeName: name, Block: inner, Nesting: mode, MinItems: from.MinItems, MaxItems: from.MaxItems,
		})
	}
	return to, nil
}

func convertAll(from map[string]*attribute) ([]*tfprotov6.SchemaAttribute, error) {
	var all []*tfprotov6.SchemaAttribute
	for name, a := range from {
		to := &tfprotov6.SchemaAttribute{
			Name: name, Required: a.Required, Optional: a.Optional, Computed: a.Computed,
			Sensitive: a.Sensitive, WriteOnly: a.WriteOnly,
		}
		var err error
		if a.Nested != nil {
			to.NestedType = &tfprotov6.SchemaObject{Nesting: objectModes[a.Nested.NestingMode]}
			to.NestedType.Attributes, err = convertAll(a.Nested.Attributes)
		} else {
			to.Type, err = tftypes.ParseJSONType(a.Type) //nolint:staticcheck // no other function reads types
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, to)
	}
	return all, nil
}
