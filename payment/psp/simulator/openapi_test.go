package simulator

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

// openapi is what testdata/openapi.json keeps of Stripe's own OpenAPI description: the
// schemas and parameters that the simulator spells, of each the members that it has.
type openapi struct {
	Schemas    map[string]schema   `json:"schemas"`
	Parameters map[string][]string `json:"parameters"`
}

type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Enum                 []any             `json:"enum"`
	Nullable             bool              `json:"nullable"`
	AnyOf                []schema          `json:"anyOf"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties *schema           `json:"additionalProperties"`
}

func readOpenAPI(t *testing.T) (o openapi) {
	raw, err := os.ReadFile("testdata/openapi.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &o))
	return o
}

// fits returns how v differs from s, "" if it does not.
func (o *openapi) fits(s schema, v any, path string) string {
	switch {
	case s.Ref != "":
		resolved, ok := o.Schemas[s.Ref]
		if !ok {
			return path + ": no schema " + s.Ref
		}
		return o.fits(resolved, v, path)
	case v == nil:
		if s.Nullable {
			return ""
		}
		return path + " is null"
	case len(s.AnyOf) > 0:
		var all []string
		for _, alternative := range s.AnyOf {
			why := o.fits(alternative, v, path)
			if why == "" {
				return ""
			}
			all = append(all, why)
		}
		return strings.Join(all, " or ")
	case s.Properties != nil:
		object, ok := v.(map[string]any)
		if !ok {
			return path + " is no object"
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			member, found := s.Properties[name]
			if !found {
				return path + "." + name + " is no member of Stripe's"
			}
			if why := o.fits(member, object[name], path+"."+name); why != "" {
				return why
			}
		}
		return ""
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, v):
		return path + " has a value that Stripe does not have"
	}
	got := map[string]string{"string": "string", "float64": "integer", "bool": "boolean", "map[string]interface {}": "object"}
	if kind := got[typeName(v)]; s.Type != "" && kind != s.Type {
		return path + " is " + kind + ", at Stripe " + s.Type
	}
	return ""
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "float64"
	case bool:
		return "bool"
	case map[string]any:
		return "map[string]interface {}"
	default:
		return ""
	}
}

// TestStripeSpelling holds what the simulator answers and takes in Stripe's spelling
// against Stripe's own description.
func TestStripeSpelling(t *testing.T) {
	o := readOpenAPI(t)
	s, err := Open(Config{})
	require.NoError(t, err)
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() { srv.Close(); _ = s.Close() })
	post := func(path, key, form, schema string) map[string]any {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/stripe"+path, strings.NewReader(form))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer sk_test")
		req.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var body map[string]any
		require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
		require.Empty(t, o.fits(o.Schemas[schema], body, schema), "%s %s", path, form)
		return body
	}
	n := 0
	charge := func(source, more, schema string) map[string]any {
		n++
		key := "k" + string(rune('a'+n))
		return post("/v1/payment_intents", key, "amount=1250&currency=usd&confirm=true&automatic_payment_methods[allow_redirects]=never&payment_method="+
			source+more+"&metadata[homeward_reference]=ch_"+key, schema)
	}
	away := "&off_session=true"
	paid := charge("pm_card_visa", away, "payment_intent")
	require.Equal(t, "succeeded", paid["status"])
	for source, code := range map[string]string{
		"pm_card_insufficient_funds": "card_declined", "pm_card_3ds": "authentication_required",
		"pm_card_try_again_later": "card_declined", "pm_card_do_not_try_again": "card_declined", "pm_unheard_of": "resource_missing",
	} {
		body := charge(source, away, "error")
		require.Equal(t, code, body["error"].(map[string]any)["code"], source)
	}
	waits := charge("pm_card_3ds", "", "payment_intent")
	require.Equal(t, "requires_action", waits["status"])
	require.Equal(t, "processing", charge("pm_bank_debit", "", "payment_intent")["status"])
	held := charge("pm_card_visa", "&capture_method=manual"+away, "payment_intent")
	require.Equal(t, "requires_capture", held["status"])
	captured := post("/v1/payment_intents/"+held["id"].(string)+"/capture", "capture", "amount_to_capture=1000", "payment_intent")
	require.Equal(t, "succeeded", captured["status"])
	require.EqualValues(t, 1000, captured["amount_received"])
	require.Equal(t, "canceled", post("/v1/payment_intents/"+waits["id"].(string)+"/cancel", "cancel", "", "payment_intent")["status"])
	refused := post("/v1/payment_intents/"+waits["id"].(string)+"/capture", "late", "", "error")
	require.Equal(t, "payment_intent_unexpected_state", refused["error"].(map[string]any)["code"])
	refund := post("/v1/refunds", "refund", "amount=1000&payment_intent="+held["id"].(string)+"&metadata[homeward_reference]=re_1", "refund")
	require.Equal(t, "succeeded", refund["status"])
	post("/v1/transfers", "transfer", "amount=5&currency=usd&destination=acct_1&metadata[homeward_reference]=tr_1", "transfer")

	// Each event, too, is as Stripe has it.
	for i := range s.book.len() {
		rec, id, failed := s.reported(i)
		raw, err := json.Marshal(stripeEvent(rec, i, id, int(s.book.refundOf[uint32(id)]), rec.kind() == psp.KindRefund, failed))
		require.NoError(t, err)
		var event map[string]any
		require.NoError(t, json.Unmarshal(raw, &event))
		require.Empty(t, o.fits(o.Schemas["event"], event, "event"))
	}
	// And what is taken.
	for path, names := range map[string][]string{
		"/v1/payment_intents": stripeParameters[psp.KindCharge], "/v1/transfers": stripeParameters[psp.KindTransfer], "/v1/refunds": stripeParameters[psp.KindRefund],
		"/v1/payment_intents/{intent}/confirm": actParameters[confirmedAgain], "/v1/payment_intents/{intent}/capture": actParameters[approved],
		"/v1/payment_intents/{intent}/cancel": actParameters[canceledCharge],
	} {
		for _, name := range names {
			name, _, _ = strings.Cut(name, "[")
			require.Contains(t, o.Parameters[path], name, path)
		}
	}
}
