package psp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// awkward are references that PostgreSQL could not store, or a row has no room for.
var awkward = []string{
	"ch_1\x00", "ch_1@acct_a\x00b", "\xff@acct_1", strings.Repeat("ü", 400), strings.Repeat("x", 513), strings.Repeat("x", 600) + "@acct_1",
	"ch_1@acct_" + strings.Repeat("y", 600), "\x00@" + strings.Repeat("acct_\xff", 200),
}

func TestReferencesAreKeptAsTheyAreCompared(t *testing.T) {
	seen := map[string]string{}
	for _, raw := range append([]string{"", "ch_1", "pi@shop@acct_2", strings.Repeat("x", 512), "ch_1~0011223344556677"}, awkward...) {
		kept := Ref(raw)
		require.True(t, utf8.ValidString(kept) && !strings.Contains(kept, "\x00"), "%q", kept)
		require.LessOrEqual(t, len(kept), MaxRef)
		require.Equal(t, kept, Ref(kept), "kept once more it is the same")
		require.Equal(t, AccountOf(raw) == "", AccountOf(kept) == "", "%q", kept)
		require.Empty(t, seen[kept], "two became one")
		seen[kept] = raw
		if len(raw) <= MaxRef && utf8.ValidString(raw) && !strings.Contains(raw, "\x00") {
			require.Equal(t, raw, kept)
		}
	}
	require.Equal(t, "acct_1", AccountOf(Ref(strings.Repeat("x", 600)+"@acct_1")))
	// What was cut from equal beginnings is not equal.
	require.NotEqual(t, Ref(strings.Repeat("x", 600)+"1"), Ref(strings.Repeat("x", 600)+"2"))
	require.NotEqual(t, Ref("a\x00"), Ref("a\xff"))
}

// says is a provider that answers everything with one reference.
type says struct {
	Provider
	ref string
}

func (s says) result() Result { return Result{Outcome: Approved, ProviderRef: s.ref} }

func (s says) Charge(context.Context, Call) Result          { return s.result() }
func (s says) Transfer(context.Context, Call) Result        { return s.result() }
func (s says) Refund(context.Context, Call) Result          { return s.result() }
func (s says) Capture(context.Context, Call) Result         { return s.result() }
func (s says) Cancel(context.Context, Call) Result          { return s.result() }
func (s says) Lookup(context.Context, Call) (Found, Result) { return FoundYes, s.result() }
func (s says) Name() string                                 { return "says" }
func (s says) Show(context.Context, Kind, string, string) (Found, Movement, error) {
	return FoundYes, Movement{ProviderRef: s.ref, Reference: s.ref, Currency: s.ref}, nil
}

func (s says) Read([]byte) (Notice, error) {
	return Notice{ProviderRef: s.ref, Reference: s.ref, Unasked: []Unasked{{ProviderRef: s.ref, Of: s.ref, Dispute: s.ref}}}, errors.New("kept")
}

// Whatever a provider answers by, and in whatever it names a movement, the name is one.
func TestEveryAnswerIsCleaned(t *testing.T) {
	for _, raw := range awkward {
		p, found := Providers{says{ref: raw}}.Named("says")
		require.True(t, found)
		got := map[string]string{}
		for name, do := range map[string]func(context.Context, Call) Result{
			"charge": p.Charge, "transfer": p.Transfer, "refund": p.Refund, "capture": p.Capture, "cancel": p.Cancel,
			"lookup": func(ctx context.Context, c Call) Result { _, r := p.Lookup(ctx, c); return r },
		} {
			got[name] = do(t.Context(), Call{}).ProviderRef
		}
		_, shown, _ := p.Show(t.Context(), KindCharge, "", "")
		n, err := ReadNotice(notifier{says{ref: raw}}, nil)
		require.EqualError(t, err, "kept")
		got["show"], got["notice"] = shown.ProviderRef, n.ProviderRef
		got["unasked"], got["of"], got["dispute"] = n.Unasked[0].ProviderRef, n.Unasked[0].Of, n.Unasked[0].Dispute
		for name, ref := range got {
			require.Equal(t, Ref(raw), ref, name)
		}
		for _, text := range []string{shown.Reference, shown.Currency, n.Reference} {
			require.True(t, storable(text), "%q", text)
		}
	}
}

type notifier struct{ says }

func (notifier) Signed(http.Header) bool                               { return true }
func (notifier) Verify(http.Header, []byte, time.Time) (string, error) { return "", nil }
