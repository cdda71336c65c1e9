package adyen_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/psptest"
)

// Where Adyen's OpenAPI documents are: the folder json of github.com/Adyen/adyen-openapi.
const specVariable = "ADYEN_OPENAPI"

// The documents of the API that this adapter uses.
const (
	checkoutDocument = "CheckoutService-v71.json"
	webhooksDocument = "Webhooks-v1.json"
)

// spec compiles schemas of Adyen's documents.
type spec struct {
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

func openSpec(t *testing.T) *spec {
	t.Helper()
	dir := os.Getenv(specVariable)
	if dir == "" {
		t.Skipf("%s does not name the folder json of a copy of github.com/Adyen/adyen-openapi", specVariable)
	}
	s := &spec{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	for _, name := range []string{checkoutDocument, webhooksDocument} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(f)
		if err := errorsOf(err, f.Close(), s.compiler.AddResource(name, document)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// fits holds body against a schema of a document.
func (s *spec) fits(document, pointer string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := document + "#" + pointer
	schema, ok := s.compiled[at]
	if !ok {
		var err error
		if schema, err = s.compiler.Compile(at); err != nil {
			return err
		}
		s.compiled[at] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// operation is the pointer of a request's path, as the document names it.
func operation(path string) string {
	_, path, _ = strings.Cut(path, "/payments")
	path = "/payments" + path
	if parts := strings.Split(path, "/"); len(parts) == 4 {
		path = "/payments/{paymentPspReference}/" + parts[3]
	}
	return "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/post"
}

const asJSON = "/content/application~1json/schema"

// checked is a transport that holds each request and each answer against the document.
type checked struct {
	t    *testing.T
	spec *spec
	next http.RoundTripper
	mu   sync.Mutex
	seen map[string]int
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	at := operation(r.URL.Path)
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := c.spec.fits(checkoutDocument, at+"/requestBody"+asJSON, sent); err != nil {
		c.t.Errorf("%s\n%s", sent, err)
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(sent))
	res, err := c.next.RoundTrip(again)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(got))
	status := strconv.Itoa(res.StatusCode)
	c.mu.Lock()
	c.seen[at+" "+status]++
	c.mu.Unlock()
	// The document names no other server error, where the page "API idempotency" has 503.
	if res.StatusCode > http.StatusInternalServerError {
		status = "500"
	}
	if err := c.spec.fits(checkoutDocument, at+"/responses/"+status+asJSON, got); err != nil {
		c.t.Errorf("%s: %s\n%s", status, got, err)
	}
	return res, nil
}

// Every request of the adapter and every answer and event of the simulator that the
// conformance suite makes is held against Adyen's OpenAPI documents.
func TestShapes(t *testing.T) {
	s := openSpec(t)
	seen := map[string]int{}
	psptest.Exercise(t, func(t *testing.T) psptest.Harness {
		next := &http.Transport{}
		t.Cleanup(next.CloseIdleConnections)
		h := harnessOver(t, &checked{t: t, spec: s, next: next, seen: seen})
		notices := h.Notices
		h.Notices = func() <-chan psptest.Delivery { return s.checkedNotices(t, notices()) }
		return h
	})
	for _, want := range []string{" 200", " 201", " 422", " 503"} {
		n := 0
		for at, times := range seen {
			if strings.HasSuffix(at, want) {
				n += times
			}
		}
		if n == 0 {
			t.Errorf("no answer with%s was seen: %v", want, seen)
		}
	}
	terms := &psp.Terms{Customer: "shopper_1", Manual: true, ReturnURL: "https://a.example/", StatementSuffix: "A GIFT", OrderID: []byte(`"o-1"`), Metadata: []byte(`{"k":"v"}`)}
	for path, body := range sentBy(t, terms) {
		if err := s.fits(checkoutDocument, operation(path)+"/requestBody"+asJSON, body); err != nil {
			t.Errorf("%s: %s\n%s", path, body, err)
		}
	}
	// The documents do refuse: else all of the above would prove nothing.
	if err := s.fits(checkoutDocument, operation("/payments")+"/requestBody"+asJSON, []byte(`{"amount":{"currency":"USD","value":5}}`)); err == nil {
		t.Error("half a payment fits")
	}
	if err := s.fits(checkoutDocument, operation("/payments/P/refunds")+"/requestBody"+asJSON, []byte(`{"amount":{"currency":"USD","value":5},"merchantAccount":"A","colour":"red"}`)); err == nil {
		t.Error("a refund with an unknown member fits")
	}
}

// sentBy is what captures, cancellations and a held charge send, by their paths.
func sentBy(t *testing.T, terms *psp.Terms) map[string][]byte {
	t.Helper()
	sent := map[string][]byte{}
	cfg := config("http://adyen", "")
	cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		sent[r.URL.Path] = body
		return nil, errorsOf(err, io.ErrUnexpectedEOF)
	})
	p := made(t, cfg)
	held, of := call, call
	held.Terms, of.Source, of.Terms, of.Of = terms, "NC6HT9CRT65ZGN82", nil, "ch_1"
	p.Charge(t.Context(), held)
	p.Capture(t.Context(), of)
	p.Cancel(t.Context(), of)
	if len(sent) != 3 {
		t.Fatalf("sent %d requests", len(sent))
	}
	return sent
}

// checkedNotices holds events against the documents before it hands them on.
func (s *spec) checkedNotices(t *testing.T, in <-chan psptest.Delivery) <-chan psptest.Delivery {
	out := make(chan psptest.Delivery, cap(in))
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		for {
			select {
			case <-ended:
				return
			case d := <-in:
				code := eventCode(d.Body)
				if err := s.fits(webhooksDocument, "/webhooks/~1"+code+"/post/requestBody"+asJSON, d.Body); err != nil {
					t.Errorf("%s\n%s", d.Body, err)
				}
				out <- d
			}
		}
	}()
	return out
}

func eventCode(body []byte) string {
	_, after, _ := bytes.Cut(body, []byte(`"eventCode":"`))
	code, _, _ := bytes.Cut(after, []byte(`"`))
	return string(code)
}
