package adyen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/payment/psp"
)

const (
	// maxReply bounds an answer in bytes; one with an action for the payer has some kB.
	maxReply    = 1 << 20
	maxRespHead = 64 << 10 // bytes
	// maxError bounds the stored text of an error, in bytes.
	maxError = 500
)

// serviceError is Adyen's ServiceError.
type serviceError struct {
	Status       int    `json:"status"`
	ErrorCode    string `json:"errorCode"`
	Message      string `json:"message"`
	ErrorType    string `json:"errorType"`
	PSPReference string `json:"pspReference"`
}

// codeInProgress is "request already processed or in progress" ("API idempotency").
const codeInProgress = "704"

// answer is a response.
type answer struct {
	status    int
	transient bool
	body      []byte
}

// post makes one call to the endpoint of its home. It decodes a good response into to;
// otherwise it returns the meaning of the response.
func (p *Provider) post(ctx context.Context, call psp.Call, path []string, body, to any) (refused *psp.Result) {
	unknown := func(err error) *psp.Result { return &psp.Result{Err: err} }
	switch {
	case call.Key == "":
		return unknown(errors.New("adyen: the call has no provider key, without which Adyen cannot dedupe it"))
	case len(call.Key) > maxKey:
		return unknown(fmt.Errorf("adyen: the provider key has %d characters, Adyen takes %d", len(call.Key), maxKey))
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return unknown(fmt.Errorf("adyen: encode call: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	ans, err := p.exchange(ctx, p.at(call.Home).JoinPath(path...), call.Key, raw)
	if err != nil {
		return unknown(oneLine(err))
	}
	if ans.status == http.StatusOK || ans.status == http.StatusCreated {
		if err := json.Unmarshal(ans.body, to); err != nil {
			return unknown(fmt.Errorf("adyen: status %d: the answer is not the expected JSON", ans.status))
		}
		return nil
	}
	r := ans.refusal()
	return &r
}

// at returns the endpoint for claims of a home region.
func (p *Provider) at(home string) *url.URL {
	if at, ok := p.endpoints[home]; ok {
		return at
	}
	return p.base
}

// exchange sends one request, once.
func (p *Provider) exchange(ctx context.Context, to *url.URL, key string, body []byte) (ans answer, err error) {
	ctx, sp := span.Client(ctx, http.MethodPost)
	defer func() {
		if sp.IsRecording() {
			sp.SetAttributes(span.Method.String(http.MethodPost), span.Address.String(to.Host), span.URLPath.String(to.Path))
		}
		if ans.status != 0 {
			sp.SetAttributes(span.Status.Int(ans.status))
		}
		failure := err
		if err == nil && ans.status >= http.StatusInternalServerError {
			failure = fmt.Errorf("adyen: status %d", ans.status)
		}
		span.Fail(sp, failure)
		sp.End()
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.GetBody = nil // see "No retries"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", p.key)
	req.Header.Set("Idempotency-Key", key)
	res, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	ans.status, ans.transient = res.StatusCode, strings.EqualFold(res.Header.Get("transient-error"), "true")
	ans.body, err = io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return ans, fmt.Errorf("status %d: read the answer: %w", ans.status, err)
	case len(ans.body) > maxReply:
		return ans, fmt.Errorf("status %d: an answer over %d bytes", ans.status, maxReply)
	}
	return ans, nil
}

// refusal reads an error response. It requires Adyen's own format: gateways answer with
// these codes, too.
func (a answer) refusal() psp.Result {
	var e serviceError
	if err := json.Unmarshal(a.body, &e); err != nil || e.ErrorCode == "" {
		return psp.Result{Err: fmt.Errorf("adyen: status %d without an Adyen error", a.status)}
	}
	request := a.status == http.StatusBadRequest || a.status == http.StatusNotFound || a.status == http.StatusUnprocessableEntity
	if request && !a.transient && e.ErrorCode != codeInProgress && (e.ErrorType == "validation" || e.ErrorType == "configuration") {
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Invalid, Code: "adyen_" + word(e.ErrorCode), Message: line(e.Message)}}
	}
	return psp.Result{Err: fmt.Errorf("adyen: status %d, type %q, code %q, transient %t, reference %q", a.status, e.ErrorType, e.ErrorCode, a.transient, e.PSPReference)}
}

// word returns s as a part of a code: lower case letters, digits and '_'.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, s)
}

// line returns s as one line, cut if it is long.
func line(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "")
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "…"
	}
	return s
}

func oneLine(err error) error { return fmt.Errorf("adyen: %s", line(err.Error())) }
