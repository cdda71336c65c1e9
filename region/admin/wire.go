package admin

import (
	"context"
	"encoding/json"
	"net/http"

	"connectrpc.com/connect"

	"github.com/homeward-io/homeward/region"
)

// The procedures. They are Connect's, with the types of this package as JSON: what a node answers
// is what homeward regions --json prints. A node of another version skips members that it does not
// have.
const (
	path          = "/homeward.admin.v1.AdminService/"
	pathPart      = path + "Part"
	pathOverview  = path + "Overview"
	pathSetStatus = path + "SetRegionStatus"
	pathRun       = path + "Run"
)

// partRequest asks a node for its own report.
type partRequest struct {
	// Epoch is as in [Question], and so is Arrivals.
	Epoch    uint64 `json:"epoch,omitempty"`
	Arrivals int    `json:"arrivals,omitempty"`
	// Count: the rows of each region, for a node that cannot count them.
	Count bool `json:"count,omitempty"`
}

type statusRequest struct {
	Region string `json:"region"`
	// Status is required: its zero value is active, and no message without one means that.
	Status *region.Status `json:"status"`
}

// statusAnswer has the version of the topology in which the region has its status.
type statusAnswer struct {
	Epoch uint64 `json:"epoch"`
}

type runRequest struct {
	// Args are as on a command line, without the program's name.
	Args []string `json:"args"`
}

// runOutput is what a command has printed since the last one. Exit, its exit code, is in the
// last one alone.
type runOutput struct {
	Out  []byte `json:"out,omitempty"`
	Err  []byte `json:"err,omitempty"`
	Exit *int   `json:"exit,omitempty"`
}

// codec is Connect's codec for plain Go types.
type codec struct{}

func (codec) Name() string                       { return "json" }
func (codec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (codec) Unmarshal(text []byte, v any) error { return json.Unmarshal(text, v) }

// procedure is a client of one procedure of the node at base.
func procedure[Req, Res any](c *http.Client, base, path string) *connect.Client[Req, Res] {
	return connect.NewClient[Req, Res](c, base+path, connect.WithCodec(codec{}), connect.WithReadMaxBytes(region.MaxMessageBytes), connect.WithAcceptCompression("gzip", nil, nil))
}

// call calls a procedure of a node of a region, "" for any.
func call[Req, Res any](ctx context.Context, c *http.Client, to, base, path string, req *Req) (*Res, error) {
	resp, err := procedure[Req, Res](c, base, path).CallUnary(region.Towards(ctx, to), connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// baseOf is the URL of the RPC listener at addr.
func baseOf(addr string, tls bool) string {
	if tls {
		return "https://" + addr
	}
	return "http://" + addr
}
