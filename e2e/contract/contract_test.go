package contract

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/internal/httpapi"
)

const (
	good    = `{"amount":1999,"currency":"usd","payment_method":"pm_1"}`
	object  = `{"id":"ch_1","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":1,"livemode":true,"receipt_number":"R-1","provider":{"name":"p","reference":"r"}}`
	trouble = `{"type":"/errors/not_found","title":"t","status":404,"detail":"d","error":"not_found","retry":"never"}`
)

// Each way in which an answer can differ from the document is found.
func TestMismatches(t *testing.T) {
	read, err := New(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, sent string
		status     int
		media, got string
		header     [2]string
		finds      string // "" for nothing
	}{
		"as documented":               {"/v1/charges", good, 201, "application/json", object, [2]string{"Idempotent-Replayed", "true"}, ""},
		"an error":                    {"/v1/charges", `{}`, 400, "application/problem+json", strings.ReplaceAll(trouble, "404", "400"), [2]string{}, ""},
		"an error that is new":        {"/v1/charges", `{}`, 400, "application/problem+json", strings.ReplaceAll(trouble, `"not_found"`, `"brand_new"`), [2]string{}, ""},
		"a path that there is not":    {"/v1/nothing", good, 404, "application/problem+json", trouble, [2]string{}, ""},
		"a member less":               {"/v1/charges", good, 201, "application/json", strings.Replace(object, `"amount":1999,`, "", 1), [2]string{}, "missing property 'amount'"},
		"a member of another type":    {"/v1/charges", good, 201, "application/json", strings.Replace(object, "1999", `"1999"`, 1), [2]string{}, "got string, want integer"},
		"a status of an object":       {"/v1/charges", good, 201, "application/json", strings.Replace(object, "succeeded", "done", 1), [2]string{}, "value must be one of"},
		"a const":                     {"/v1/charges", good, 201, "application/json", strings.Replace(object, `"charge"`, `"refund"`, 1), [2]string{}, "value must be 'charge'"},
		"a status":                    {"/v1/charges", good, 418, "application/json", "{}", [2]string{}, "status is not supported"},
		"a media type":                {"/v1/charges", good, 201, "text/html", object, [2]string{}, "Content-Type"},
		"a header that is new":        {"/v1/charges", good, 201, "application/json", object, [2]string{"X-New", "1"}, "X-New"},
		"a header's value":            {"/v1/charges", good, 201, "application/json", object, [2]string{"Idempotent-Replayed", "yes"}, "Idempotent-Replayed"},
		"a request that was accepted": {"/v1/charges", strings.Replace(good, "{", `{"colour":"red",`, 1), 201, "application/json", object, [2]string{}, "colour"},
		"no path of the document":     {"/v1/nothing", good, 200, "application/json", "{}", [2]string{}, "no operation answers"},
		"no problem":                  {"/v1/nothing", good, 404, "text/plain", "404", [2]string{}, "is not answered with a problem document"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.media)
				if c.header[0] != "" {
					w.Header().Set(c.header[0], c.header[1])
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.got)
			}))
			defer server.Close()
			checker := read.Another()
			client := &http.Client{Transport: checker.Transport(http.DefaultTransport, func(*http.Request) bool { return false })}
			for range 2 { // the second has been read by then
				r, err := http.NewRequest(http.MethodPost, server.URL+c.path, strings.NewReader(c.sent))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Idempotency-Key", "k")
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || string(got) != c.got || res.StatusCode != c.status {
					t.Fatalf("the answer was changed: %d %s, %v", res.StatusCode, got, err)
				}
			}
			found, checked := checker.Mismatches()
			if checked != 2 || (c.finds == "") != (len(found) == 0) || c.finds != "" && !strings.Contains(found[0], c.finds) {
				t.Errorf("of %d answers found %q, want %q", checked, found, c.finds)
			}
		})
	}
}

// Of one shape a few are checked, and what looks another way is checked whenever it comes.
func TestShapes(t *testing.T) {
	checker, err := New(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	answer := func(body string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/charges", nil)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
		checker.look(r, []byte(good), &http.Response{
			StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		})
	}
	for i := range 3 * enough {
		answer(strings.Replace(object, "ch_1", fmt.Sprintf("ch_%026d", i), 1))
	}
	if found, _ := checker.Mismatches(); len(found) != 0 {
		t.Fatal(found)
	}
	if len(checker.seen) != 1 {
		t.Errorf("answers that differ by their id have %d shapes", len(checker.seen))
	}
	answer(strings.Replace(object, "1999", `"1999"`, 1))
	if found, _ := checker.Mismatches(); len(found) != 1 {
		t.Errorf("a member of another type was found %d times", len(found))
	}
}

func TestEvent(t *testing.T) {
	checker, err := New(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	event := `{"id":"evt_ch_1_1","type":"charge.succeeded","created":1,"livemode":true,"data":` + object + `}`
	for body, ok := range map[string]bool{
		event: true,
		strings.Replace(event, "charge.succeeded", "charge.brand_new", 1): true,
		strings.Replace(event, `"created":1,"livemode"`, `"livemode"`, 1): false,
		strings.Replace(event, "charge.succeeded", "parcel.lost", 1):      false,
		"{}": false,
	} {
		if err := checker.Event([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: got %v", body, err)
		}
	}
}
