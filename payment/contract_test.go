package payment

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// The OpenAPI document has each type of event that can be made, with the webhook that delivers it, and
// the objects of events about what the provider did unasked.
func TestTheContractHasEveryEvent(t *testing.T) {
	raw, err := os.ReadFile("../internal/httpapi/openapi.json")
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem://api", document))
	schema, err := compiler.Compile("mem://api#/components/schemas/Event")
	require.NoError(t, err)
	var api struct {
		Webhooks   map[string]struct{ Post struct{ Description string } }
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Growing []string `json:"x-extensible-enum"`
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(raw, &api))
	members := api.Components.Schemas["EventObject"].Properties

	var types []string
	for _, status := range []string{
		statusSucceeded, statusDeclined, statusFailed, statusExpired, statusCanceled,
		string(psp.RequiresAction), string(psp.Processing), string(RequiresCapture),
	} {
		types = append(types, "charge."+status)
		require.Contains(t, members["status"].Growing, status)
	}
	for _, status := range []string{statusSucceeded, statusDeclined, statusFailed, statusExpired, statusCanceled, string(psp.Processing)} {
		types = append(types, "transfer."+status)
	}
	for _, status := range []string{statusSucceeded, statusDeclined, statusFailed, statusCanceled, string(psp.Processing)} {
		types = append(types, "refund."+status)
	}
	types = append(types, slices.Collect(maps.Values(happenings))...)
	slices.Sort(types)
	types = slices.Compact(types)
	require.ElementsMatch(t, types, api.Components.Schemas["Event"].Properties["type"].Growing)
	for _, kind := range types {
		about := kind[:strings.LastIndexByte(kind, '.')]
		says := api.Webhooks[strings.TrimPrefix(about, "charge.")].Post.Description
		require.Regexp(t, `[ ,]`+strings.ReplaceAll(kind, ".", `\.`)+`[,. ]`, says)
	}

	of := someBooks().all["europe/"+paid]
	of.Order, of.Metadata = "order-17", `{"color":"red"}`
	for kind := range happenings {
		h := Happened{
			Transaction: ledger.UnaskedOf(of, kind, "px_later", 100), Of: of, Dispute: "dp_px", Reason: "fraudulent",
			At: time.Unix(1795370831, 0), DueBy: time.Unix(1795975631, 0),
		}
		if kind == ledger.TransferReversal {
			h.Of.Object = "tr_" + strings.TrimPrefix(of.Object, "ch_")
			h.Object = h.Of.Object
		}
		payload := HappenedUnasked(h, []outbox.Kind{outbox.KindLog})[0].Payload
		event, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(event), "%s", payload)
		for member := range event.(map[string]any)["data"].(map[string]any) {
			require.Contains(t, members, member, "%s", payload)
		}
	}
}
