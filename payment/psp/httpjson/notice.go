package httpjson

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/homeward-io/homeward/payment/psp"
)

func (p *Provider) setNotices(w Notices) error {
	w.IDHeader = orElse(w.IDHeader, standardwebhooks.HeaderWebhookID)
	w.TimestampHeader = orElse(w.TimestampHeader, standardwebhooks.HeaderWebhookTimestamp)
	w.SignatureHeader = orElse(w.SignatureHeader, standardwebhooks.HeaderWebhookSignature)
	if w.Tolerance < 0 {
		return fmt.Errorf("httpjson: webhook tolerance %s: must not be negative", w.Tolerance)
	}
	if w.Tolerance == 0 {
		w.Tolerance = psp.NoticeTolerance
	}
	for _, name := range []string{w.IDHeader, w.TimestampHeader, w.SignatureHeader} {
		if !isHeader(name) {
			return fmt.Errorf("httpjson: webhook header %q cannot be the name of a header; write one as webhook-id", name)
		}
	}
	p.notices = w
	if w.Secret == "" {
		return nil
	}
	var err error
	// The error is not wrapped: it would contain a part of the secret.
	if p.signature, err = standardwebhooks.NewWebhook(w.Secret); err != nil || len(strings.TrimPrefix(w.Secret, "whsec_")) == 0 {
		return fmt.Errorf("httpjson: the webhook secret of %s is not base64, with or without whsec_ before it: copy it again from the provider", p.name)
	}
	return nil
}

// maxEventID bounds an event's id in bytes: it becomes part of a key.
const maxEventID = 255

// Signed implements [psp.Notifier]: a signature of Standard Webhooks is 32 bytes in base64.
func (p *Provider) Signed(header http.Header) bool {
	_, err := strconv.ParseInt(header.Get(p.notices.TimestampHeader), 10, 64)
	return err == nil && header.Get(p.notices.IDHeader) != "" && signed.MatchString(header.Get(p.notices.SignatureHeader))
}

// signed is the form of a header with a signature of version 1 among others.
var signed = regexp.MustCompile(`(^| )v1,[A-Za-z0-9+/]{43}=(,| |$)`)

// Verify implements [psp.Notifier].
func (p *Provider) Verify(header http.Header, body []byte, now time.Time) (eventID string, err error) {
	if p.signature == nil {
		return "", fmt.Errorf("httpjson: %w", psp.ErrUnchecked)
	}
	if len(body) > psp.MaxNotice {
		return "", fmt.Errorf("httpjson: %w: over %d bytes", psp.ErrMalformed, psp.MaxNotice)
	}
	id, at := header.Get(p.notices.IDHeader), header.Get(p.notices.TimestampHeader)
	signed := http.Header{}
	signed.Set(standardwebhooks.HeaderWebhookID, id)
	signed.Set(standardwebhooks.HeaderWebhookTimestamp, at)
	signed.Set(standardwebhooks.HeaderWebhookSignature, header.Get(p.notices.SignatureHeader))
	// The library would compare the time with a clock of its own.
	if err := p.signature.VerifyIgnoringTimestamp(body, signed); err != nil {
		return "", fmt.Errorf("httpjson: %w", psp.ErrForged)
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil { // it has been parsed once already
		return "", fmt.Errorf("httpjson: %w", psp.ErrForged)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > p.notices.Tolerance || age < -p.notices.Tolerance {
		return "", fmt.Errorf("httpjson: %w", psp.ErrStale)
	}
	if !readable(id, maxEventID) {
		return "", fmt.Errorf("httpjson: %w: its id must be 1 to %d visible ASCII characters", psp.ErrMalformed, maxEventID)
	}
	return id, nil
}

// Read implements [psp.Notifier].
func (p *Provider) Read(body []byte) (psp.Notice, error) {
	var head struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Created int64           `json:"created"`
		Data    json.RawMessage `json:"data"`
	}
	if len(body) > psp.MaxNotice {
		return psp.Notice{}, malformed("over %d bytes", psp.MaxNotice)
	}
	if json.Unmarshal(body, &head) != nil {
		return psp.Notice{}, malformed("not the expected JSON")
	}
	if !readable(head.ID, maxEventID) {
		return psp.Notice{}, malformed("id must be 1 to %d visible ASCII characters", maxEventID)
	}
	n := psp.Notice{ID: head.ID, At: time.Unix(head.Created, 0).UTC()}
	kind, status, _ := strings.Cut(head.Type, ".")
	switch report, err := unasked(head.Type, head.Data); {
	case err != nil:
		return psp.Notice{}, err
	case report != nil:
		return psp.Notice{ID: n.ID, At: n.At, Unasked: report}, nil
	}
	switch n.Kind = psp.Kind(kind); n.Kind {
	case psp.KindCharge, psp.KindTransfer, psp.KindRefund:
	default:
		return psp.Notice{ID: n.ID, At: n.At}, nil
	}
	if status != statusSucceeded && status != statusDeclined && status != statusFailed {
		return psp.Notice{ID: n.ID, At: n.At}, nil
	}
	// Decoded only now: an event of another type may contain anything.
	var data reply
	if json.Unmarshal(head.Data, &data) != nil || data.Status != status {
		return psp.Notice{}, malformed("data is not that of %s.%s", n.Kind, status)
	}
	n.Movement, n.Reference, n.Amount, n.Currency = true, data.Reference, data.Amount, data.Currency
	if !readable(n.Reference, maxEventID) || n.Amount <= 0 || len(n.Currency) != len("usd") || !readable(n.Currency, len("usd")) {
		return psp.Notice{}, malformed("data lacks a reference, an amount above 0 or a currency")
	}
	if status != statusDeclined {
		if !readable(data.ID, maxEventID) {
			return psp.Notice{}, malformed("data.id must be 1 to %d visible ASCII characters", maxEventID)
		}
		n.ProviderRef = data.ID
	}
	if status == statusSucceeded {
		n.Outcome = psp.Approved
		return n, nil
	}
	r := data.declined(http.StatusOK)
	if r.Outcome != psp.Declined {
		return psp.Notice{}, malformed("a decline of an unknown class")
	}
	n.Outcome, n.Decline = r.Outcome, r.Decline
	return n, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("httpjson: %w: %s", psp.ErrMalformed, fmt.Sprintf(format, args...))
}

// readable reports whether s is 1 to most visible ASCII characters.
func readable(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
