// Standin takes the place of a Terraform provider where the real one is not: it serves
// the schema of schemas/NAME.json, where NAME is the last part of its own file's name
// (terraform-provider-aws serves schemas/aws.json), and nothing else. With it `init`,
// `validate`, and `test` with mock_provider run without registry, credentials or network,
// and a wrong attribute or type fails as it would with the real provider. Whoever plans or
// applies with it gets an error that says so.
//
// What it cannot tell: values that the real provider refuses (its validators), conflicts
// between attributes, and what the cloud makes of a request.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

//go:embed schemas
var files embed.FS

func main() {
	name := strings.TrimPrefix(filepath.Base(os.Args[0]), "terraform-provider-")
	name, _, _ = strings.Cut(name, "_")
	if err := serve(name); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func serve(name string) error {
	text, err := files.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return fmt.Errorf("there is no schema of a provider %q: call this file terraform-provider-NAME", name)
	}
	var all schemas
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("schemas/%s.json: %w", name, err)
	}
	served, err := all.convert()
	if err != nil {
		return fmt.Errorf("schemas/%s.json: %w", name, err)
	}
	return tf6server.Serve("registry.terraform.io/stand-in/"+name, func() tfprotov6.ProviderServer {
		return &standin{schemas: served}
	})
}

// standin answers what init, validate and mocked tests ask. Its embedded interface is nil:
// what else there is comes after ConfigureProvider, which refuses.
type standin struct {
	tfprotov6.ProviderServer
	schemas *tfprotov6.GetProviderSchemaResponse
}

func (s *standin) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	r := &tfprotov6.GetMetadataResponse{}
	for name := range s.schemas.ResourceSchemas {
		r.Resources = append(r.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for name := range s.schemas.DataSourceSchemas {
		r.DataSources = append(r.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	return r, nil
}

func (s *standin) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return s.schemas, nil
}

func (s *standin) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *standin) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{}, nil
}

func (s *standin) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *standin) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *standin) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

// UpgradeResourceState returns a state of a mocked run as it is.
func (s *standin) UpgradeResourceState(_ context.Context, r *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	schema := s.schemas.ResourceSchemas[r.TypeName]
	if schema == nil {
		return nil, fmt.Errorf("there is no schema of %s", r.TypeName)
	}
	value, err := r.RawState.Unmarshal(schema.ValueType())
	if err != nil {
		return nil, err
	}
	state, err := tfprotov6.NewDynamicValue(schema.ValueType(), value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (s *standin) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{Diagnostics: []*tfprotov6.Diagnostic{{
		Severity: tfprotov6.DiagnosticSeverityError,
		Summary:  "This is a stand-in for the provider",
		Detail:   "It knows schemas and nothing else, for validate and for tests with mock_provider. To plan and apply, let init fetch the real provider: unset TF_CLI_CONFIG_FILE.",
	}}}, nil
}

func (s *standin) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}
