package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/homeward-io/homeward/payment/psp"
)

// maxID bounds ids in bytes: Stripe reserves 255 characters for its own.
const maxID = 255

// Signed implements [psp.Notifier]: a time, and a signature of 32 bytes in hexadecimal.
func (p *Provider) Signed(header http.Header) bool {
	var at, by bool
	for pair := range strings.SplitSeq(header.Get("Stripe-Signature"), ",") {
		at = at || strings.HasPrefix(pair, "t=")
		by = by || strings.HasPrefix(pair, "v1=") && len(pair) == len("v1=")+hex.EncodedLen(sha256.Size)
	}
	return at && by
}

// Verify implements [psp.Notifier], by the SDK. Stripe judges a signature by its
// age alone: one from a clock that is ahead is not stale.
func (p *Provider) Verify(header http.Header, body []byte, now time.Time) (eventID string, err error) {
	if len(p.secrets) == 0 {
		return "", fmt.Errorf("stripe: %w", psp.ErrUnchecked)
	}
	if len(body) > psp.MaxNotice {
		return "", malformed("over %d bytes", psp.MaxNotice)
	}
	signature := header.Get("Stripe-Signature")
	by := slices.IndexFunc(p.secrets, func(secret string) bool {
		return webhook.ValidatePayloadIgnoringTolerance(body, signature, secret) == nil
	})
	if by < 0 {
		return "", fmt.Errorf("stripe: %w", psp.ErrForged)
	}
	// The SDK compares with a clock of its own, and now is ours: their difference is
	// added on both sides of its comparison.
	err = webhook.ValidatePayloadWithTolerance(body, signature, p.secrets[by], p.tolerance+time.Since(now))
	switch {
	case errors.Is(err, webhook.ErrTooOld):
		return "", fmt.Errorf("stripe: %w", psp.ErrStale)
	case err != nil:
		return "", fmt.Errorf("stripe: %w", psp.ErrForged)
	}
	var head struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &head) != nil || !readable(head.ID) {
		return "", malformed("id must be 1 to %d visible ASCII characters", maxID)
	}
	return head.ID, nil
}

// Read implements [psp.Notifier]. It ignores the event of a movement without our
// reference in its metadata, which we did not request, and of the mode that is not the key's.
func (p *Provider) Read(body []byte) (psp.Notice, error) {
	if len(body) > psp.MaxNotice {
		return psp.Notice{}, malformed("over %d bytes", psp.MaxNotice)
	}
	var event struct {
		ID       string `json:"id"`
		Object   string `json:"object"`
		Created  int64  `json:"created"`
		Livemode bool   `json:"livemode"`
		Type     string `json:"type"`
		Account  string `json:"account"` // of a connected account
		Data     struct {
			Object json.RawMessage `json:"object"`
		} `json:"data"`
	}
	switch {
	case json.Unmarshal(body, &event) != nil:
		return psp.Notice{}, malformed("not the expected JSON")
	case event.Object != "event":
		return psp.Notice{}, malformed("not an event: create the endpoint for snapshot events, not for thin ones")
	case !readable(event.ID):
		return psp.Notice{}, malformed("id must be 1 to %d visible ASCII characters", maxID)
	}
	nothing := psp.Notice{ID: event.ID, At: time.Unix(event.Created, 0).UTC()}
	if p.otherMode(event.Livemode) {
		return nothing, nil
	}
	n := nothing
	var m movement
	var err error
	switch event.Type {
	case "payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled", "payment_intent.processing",
		"payment_intent.requires_action", "payment_intent.amount_capturable_updated":
		n.Kind = psp.KindCharge
		m, err = read(event.Data.Object, ofPaymentIntent)
	case "transfer.created":
		n.Kind = psp.KindTransfer
		m, err = read(event.Data.Object, ofTransfer)
	// A refund's first event may be the only one, or report it pending. A failed refund
	// may have succeeded before. Only refund.updated would show that, in its
	// previous_attributes, and it may come late or not at all: the books show it, too.
	case "refund.created", "refund.updated", "refund.failed", "charge.refund.updated":
		n.Kind = psp.KindRefund
		m, err = read(event.Data.Object, ofRefund)
	default:
		nothing.Unasked, err = unasked(event.Type, event.Account, event.Data.Object)
		if err != nil {
			return psp.Notice{}, err
		}
		return nothing, nil
	}
	if err != nil {
		return psp.Notice{}, malformed("its object is not that of %s", event.Type)
	}
	if m.reference == "" {
		if n.Kind == psp.KindRefund {
			if nothing.Unasked, err = refundByHand(event.Account, event.Data.Object); err != nil {
				return psp.Notice{}, err
			}
		}
		return nothing, nil
	}
	if !readable(m.id) || !readable(m.reference) || m.amount <= 0 || len(m.currency) != len("usd") || !readable(m.currency) {
		return psp.Notice{}, malformed("its object lacks an id, a reference, an amount above 0 or a currency")
	}
	amount, err := FromStripe(m.amount, m.currency)
	if err != nil {
		return psp.Notice{}, malformed("%v", err)
	}
	n.Movement, n.Reference, n.Key, n.Amount, n.Currency = true, m.reference, m.key, amount, m.currency
	n.Outcome, n.Decline = m.status, m.decline
	if n.Outcome == psp.Approved || n.Outcome == psp.Declined || n.Outcome == psp.Authorized {
		n.ProviderRef = ref(m.id, event.Account)
	}
	return n, nil
}

// otherMode reports whether an event is of the mode in which the key makes no call. Test events of
// connected accounts come to the live endpoint, too, signed with its secret ("Connect webhooks"): no
// money moved by them, and their owners make them at will, with our reference and key.
func (p *Provider) otherMode(live bool) bool {
	switch mode := p.key[len("sk"):]; {
	case strings.HasPrefix(mode, "_live_"):
		return !live
	case strings.HasPrefix(mode, "_test_"):
		return live
	default:
		return false
	}
}

func read[T any](raw json.RawMessage, of func(*T) movement) (movement, error) {
	var object T
	if err := json.Unmarshal(raw, &object); err != nil {
		return movement{}, err
	}
	return of(&object), nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("stripe: %w: %s", psp.ErrMalformed, fmt.Sprintf(format, args...))
}

// readable reports whether s is 1 to maxID visible ASCII characters.
func readable(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
