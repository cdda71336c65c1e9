package psp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

const (
	// MaxRef bounds a reference of a provider, in bytes: what a claim's row keeps of one.
	// References in use have some 60.
	MaxRef = 512
	// maxAccount bounds the account in it.
	maxAccount = 128
)

// Ref returns a provider's reference as it is kept, compared and booked: UTF-8 without NUL,
// which PostgreSQL cannot store, of at most [MaxRef] bytes. One that is not like that gets a
// digest of the whole at its end, so that no two become one; its account stays an account
// (see [AccountOf]). Ref changes nothing that it returned.
func Ref(raw string) string {
	if len(raw) <= MaxRef && storable(raw) {
		return raw
	}
	sum := sha256.Sum256([]byte(raw))
	end, account := "~"+hex.EncodeToString(sum[:8]), AccountOf(raw)
	if account != "" {
		raw = raw[:len(raw)-len("@"+account)]
		end += "@" + cut(clean(account), maxAccount)
	}
	return cut(clean(raw), MaxRef-len(end)) + end
}

func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// clean returns s as text that every store can keep.
func clean(s string) string {
	if storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cut returns at most n bytes of s, and no part of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Clean returns p with references as of [Ref] in all that it answers. Call providers
// through Clean alone: what is booked, compared and refunded by a reference then agrees.
func Clean(p Provider) Provider { return cleaned{p} }

type cleaned struct{ Provider }

func cleanResult(r Result) Result {
	r.ProviderRef = Ref(r.ProviderRef)
	return r
}

// Charge implements [Provider].
func (p cleaned) Charge(ctx context.Context, call Call) Result {
	return cleanResult(p.Provider.Charge(ctx, call))
}

// Transfer implements [Provider].
func (p cleaned) Transfer(ctx context.Context, call Call) Result {
	return cleanResult(p.Provider.Transfer(ctx, call))
}

// Refund implements [Provider].
func (p cleaned) Refund(ctx context.Context, call Call) Result {
	return cleanResult(p.Provider.Refund(ctx, call))
}

// Capture implements [Provider].
func (p cleaned) Capture(ctx context.Context, call Call) Result {
	return cleanResult(p.Provider.Capture(ctx, call))
}

// Cancel implements [Provider].
func (p cleaned) Cancel(ctx context.Context, call Call) Result {
	return cleanResult(p.Provider.Cancel(ctx, call))
}

// Lookup implements [Provider].
func (p cleaned) Lookup(ctx context.Context, call Call) (Found, Result) {
	found, r := p.Provider.Lookup(ctx, call)
	return found, cleanResult(r)
}

// Show implements [Provider].
func (p cleaned) Show(ctx context.Context, kind Kind, reference, providerRef string) (Found, Movement, error) {
	found, m, err := p.Provider.Show(ctx, kind, reference, providerRef)
	m.ProviderRef, m.Reference, m.Currency = Ref(m.ProviderRef), clean(m.Reference), clean(m.Currency)
	return found, m, err
}

// ReadNotice reads a verified body, with references as of [Ref]. Read notices through it
// alone.
func ReadNotice(from Notifier, body []byte) (Notice, error) {
	n, err := from.Read(body)
	n.ProviderRef, n.Reference, n.Order, n.Currency = Ref(n.ProviderRef), clean(n.Reference), clean(n.Order), clean(n.Currency)
	for i := range n.Unasked {
		u := &n.Unasked[i]
		u.ProviderRef, u.Of, u.Dispute = Ref(u.ProviderRef), Ref(u.Of), Ref(u.Dispute)
		u.Reference, u.Currency = clean(u.Reference), clean(u.Currency)
	}
	return n, err
}
