package proto_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
	_ "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	definitions "github.com/homeward-io/homeward/internal/proto"
)

const regenerate = "run: go generate ./internal/proto"

// serialise drops what generated code does not keep: comments and positions,
// and the json_name that a compiler fills in for every field.
func serialise(t *testing.T, f protoreflect.FileDescriptor) []byte {
	t.Helper()
	d := protodesc.ToFileDescriptorProto(f)
	d.SourceCodeInfo = nil
	var strip func(messages []*descriptorpb.DescriptorProto)
	strip = func(messages []*descriptorpb.DescriptorProto) {
		for _, m := range messages {
			for _, field := range m.Field {
				field.JsonName = nil
			}
			strip(m.NestedType)
		}
	}
	strip(d.MessageType)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGeneratedCodeIsCurrent(t *testing.T) {
	files, err := definitions.Compile(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		embedded, err := protoregistry.GlobalFiles.FindFileByPath(f.Path())
		if err != nil {
			t.Errorf("%s has no generated code known to this test: %v; %s, and import its package here", f.Path(), err, regenerate)
			continue
		}
		if !slices.Equal(serialise(t, f), serialise(t, embedded)) {
			t.Errorf("the generated code of %s is not current; %s", f.Path(), regenerate)
		}
	}
}

func TestConnectProceduresMatch(t *testing.T) {
	files, err := definitions.Compile(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				want = append(want, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
			}
		}
	}
	got := []string{
		peerv1connect.PeerServiceExecuteProcedure,
		peerv1connect.PeerServiceInspectProcedure,
		peerv1connect.PeerServiceObjectProcedure,
		peerv1connect.PeerServiceTenantProcedure,
		peerv1connect.PeerServicePingProcedure,
	}
	if !slices.Equal(got, want) {
		t.Errorf("procedures %v, defined are %v; %s", got, want, regenerate)
	}
}
