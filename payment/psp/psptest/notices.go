package psptest

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Each movement makes one notice, which verifies and reads back as the movement.
func notices(t *testing.T, h Harness) {
	n, ok := h.Provider.(psp.Notifier)
	if !ok {
		t.Fatalf("%T sends webhooks and is no psp.Notifier", h.Provider)
	}
	in := h.Notices()
	charge := h.charge("1")
	chargeRef := wantApproved(t, h.Provider.Charge(t.Context(), charge))
	refund := h.refund("3", chargeRef, 1000)
	answered := wantApproved
	if h.Provider.Capabilities().Asynchronous {
		answered = wantPending
	}
	refundRef := answered(t, h.Provider.Refund(t.Context(), refund))
	calls := map[string]psp.Call{chargeRef: charge, refundRef: refund}
	if !h.Provider.Capabilities().NoTransfers {
		transfer := h.transfer("2")
		calls[wantApproved(t, h.Provider.Transfer(t.Context(), transfer))] = transfer
	}

	want := map[string]psp.Notice{}
	for ref, call := range calls {
		want[call.Reference] = psp.Notice{
			Movement: true, Kind: call.Kind, Reference: call.Reference, ProviderRef: ref,
			Outcome: psp.Approved, Amount: call.Amount, Currency: call.Currency,
		}
	}
	ids := map[string]bool{}
	for range len(want) {
		d := <-in
		id, err := n.Verify(d.Header, d.Body, d.At)
		if err != nil {
			t.Fatalf("%s does not verify: %v", d.Body, err)
		}
		if !n.Signed(d.Header) {
			t.Errorf("its body would not be read: %v", d.Header)
		}
		got, err := n.Read(d.Body)
		if err != nil {
			t.Fatalf("%s does not read: %v", d.Body, err)
		}
		if id == "" || got.ID != id || ids[id] {
			t.Errorf("the event is %q in the header and %q in the body, seen before: %t", id, got.ID, ids[id])
		}
		ids[id] = true
		if got.At.IsZero() || got.At.Location() != time.UTC {
			t.Errorf("At is %v; want a time in UTC", got.At)
		}
		h.refusesForgeries(t, n, d, got)
		h.keyOf(t, &got, calls)
		got.ID, got.At = "", time.Time{}
		if !reflect.DeepEqual(got, want[got.Reference]) {
			t.Errorf("got  %+v\nwant %+v", got, want[got.Reference])
		}
		delete(want, got.Reference)
	}
	if len(want) > 0 {
		t.Errorf("no notice of %+v", want)
	}
	if h.Unasked != nil {
		unasked(t, h, n, in)
	}
	if len(in) > 0 {
		t.Errorf("a notice too many: %s", (<-in).Body)
	}
	h.tellsOfFailures(t, n, in, map[string]psp.Call{refundRef: refund, chargeRef: charge})
}

// tellsOfFailures: a movement that succeeded and fails is reported again, with the same
// provider reference, under an event id of its own.
func (h Harness) tellsOfFailures(t *testing.T, n psp.Notifier, in <-chan Delivery, movements map[string]psp.Call) {
	t.Helper()
	for ref, call := range movements {
		h.Fail(ref)
		d := <-in
		if _, err := n.Verify(d.Header, d.Body, d.At); err != nil {
			t.Fatalf("%s does not verify: %v", d.Body, err)
		}
		got, err := n.Read(d.Body)
		if err != nil {
			t.Fatalf("%s does not read: %v", d.Body, err)
		}
		if got.Decline == nil {
			t.Fatalf("%s reads as %+v; want a decline", d.Body, got)
		}
		h.keyOf(t, &got, movements)
		got.ID, got.At, got.Decline = "", time.Time{}, nil
		if want := (psp.Notice{
			Movement: true, Kind: call.Kind, Reference: call.Reference, ProviderRef: ref,
			Outcome: psp.Declined, Amount: call.Amount, Currency: call.Currency,
		}); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

// keyOf takes the provider key out of a notice. A notice with a key must have that of
// the call.
func (h Harness) keyOf(t *testing.T, got *psp.Notice, calls map[string]psp.Call) {
	t.Helper()
	if want := calls[got.ProviderRef].Key; got.Key != "" && got.Key != want {
		t.Errorf("the notice of %s has the key %q; want that of the call, %q", got.Reference, got.Key, want)
	}
	got.Key = ""
}

func (h Harness) refusesForgeries(t *testing.T, n psp.Notifier, d Delivery, signed psp.Notice) {
	t.Helper()
	refuses := func(what string, n psp.Notifier, d Delivery, want error) {
		t.Helper()
		id, err := n.Verify(d.Header, d.Body, d.At)
		if !errors.Is(err, want) || id != "" {
			t.Errorf("%s: got %q, %v; want %v", what, id, err, want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%s: %q is not one line", what, err)
		}
	}
	refuses("another secret", h.Stranger, d, psp.ErrForged)
	for i := range d.Body {
		tampered := d
		tampered.Body = bytes.Clone(d.Body)
		tampered.Body[i] ^= 1
		if _, err := n.Verify(tampered.Header, tampered.Body, tampered.At); err == nil && h.SignsValues {
			// Only the time may have changed.
			got, err := n.Read(tampered.Body)
			if got.At = signed.At; err != nil || !reflect.DeepEqual(got, signed) {
				t.Errorf("%s is signed, and reads as %+v, %v; want %+v", tampered.Body, got, err, signed)
			}
			continue
		}
		refuses("a changed byte", n, tampered, psp.ErrForged)
	}
	cut := d
	cut.Body = d.Body[:len(d.Body)-1]
	refuses("a byte less", n, cut, psp.ErrForged)
	if h.SignsValues {
		return
	}
	bare := d
	bare.Header = nil
	refuses("no header", n, bare, psp.ErrForged)
	if n.Signed(nil) {
		t.Error("the body would be read although nothing signs it")
	}
	for name, values := range d.Header {
		for _, v := range values {
			if !strings.Contains(strings.ToLower(name), "signature") && !strings.Contains(strings.ToLower(name), "webhook") {
				continue
			}
			changed := d
			changed.Header = d.Header.Clone()
			last := v[len(v)-2] // the very last character of base64 may be padding
			other := byte('0')
			if last == other {
				other = '1'
			}
			changed.Header.Set(name, v[:len(v)-2]+string(other)+v[len(v)-1:])
			refuses("a changed "+name, n, changed, psp.ErrForged)
		}
	}
	// The signature was made before d.At, by no more than the delivery took.
	stale := d
	stale.At = d.At.Add(psp.NoticeTolerance + time.Second)
	refuses("a replay", n, stale, psp.ErrStale)
}

// FuzzNotifier sends n arbitrary webhooks. Nothing may panic; an error must be
// ErrMalformed, in one line; a notice must be complete. Nothing that is not signed
// verifies.
func FuzzNotifier(f *testing.F, n psp.Notifier, signatureHeader string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s), "t=1,v1=00")
		f.Add([]byte(s), "v1,AAAA")
	}
	f.Fuzz(func(t *testing.T, body []byte, signature string) {
		got, err := n.Read(body)
		switch {
		case err != nil:
			if !errors.Is(err, psp.ErrMalformed) || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%q is not one line that says it is malformed", err)
			}
			if !reflect.DeepEqual(got, psp.Notice{}) {
				t.Errorf("%v, and yet %+v", err, got)
			}
		case got.ID == "":
			t.Errorf("no id: %+v", got)
		case !got.Movement:
			if got.Outcome != psp.Unknown || got.Reference != "" || got.Decline != nil {
				t.Errorf("no movement, and yet %+v", got)
			}
		default:
			if got.Reference == "" || got.Amount <= 0 || got.Currency == "" || got.Kind == "" ||
				(got.Outcome == psp.Declined) != (got.Decline != nil) || (got.Outcome == psp.Approved && got.ProviderRef == "") {
				t.Errorf("not whole: %+v", got)
			}
		}
		header := map[string][]string{"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {"1"}}
		header[signatureHeader] = []string{signature}
		if id, err := n.Verify(header, body, time.Unix(1, 0)); err == nil || id != "" {
			t.Errorf("a webhook without a signature verifies as %q", id)
		}
	})
}
