package payment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

func (b *books) Charges(_ context.Context, region string, c ledger.Charges) (all []ledger.Transaction, _ error) {
	if region == b.lost {
		return nil, claim.ErrHomeUnreachable
	}
	for _, t := range b.all {
		if t.Region == region && c.Has(&t) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(x, y ledger.Transaction) int { return c.Compare(&x, &y) })
	return all[:min(len(all), c.Limit)], b.err
}

// codes are the regions of the lists' tests.
var codes = []string{"europe", "asia", "america"}

func listing(b *books) *Present {
	return &Present{
		Books: b, Homes: func() []string { return codes },
		Home: func(code claim.RegionCode) (string, bool) {
			if int(code) > len(codes) {
				return "", false
			}
			return codes[code-1], true
		},
	}
}

// someCharges books n charges of acme in turn in each region, two a second, and one of another
// merchant's. It returns acme's, the latest first.
func someCharges(n int) (*books, []ledger.Transaction) {
	b := &books{all: map[string]ledger.Transaction{}}
	var all []ledger.Transaction
	for i := range n {
		t := booked(chargeOf(claim.RegionCode(1+i%len(codes))), "acme", "px")
		t.Region, t.Created, t.Order = codes[i%len(codes)], firstUse.Add(time.Duration(i/2)*time.Second), fmt.Sprint("order-", i%4)
		t.Metadata = `{"n":"` + fmt.Sprint(i) + `"}`
		all = append(all, b.add(t))
		t = booked(chargeOf(1), "globex", "px")
		t.Region, t.Created, t.Order = "europe", firstUse, "order-1"
		b.add(t)
	}
	slices.SortFunc(all, func(x, y ledger.Transaction) int { return (&ledger.Charges{Latest: true}).Compare(&x, &y) })
	return b, all
}

func idsOf(t *testing.T, page []json.RawMessage) (ids []string) {
	t.Helper()
	for _, item := range page {
		var o struct{ ID string }
		require.NoError(t, json.Unmarshal(item, &o), string(item))
		ids = append(ids, o.ID)
	}
	return ids
}

// A list pages forwards and back through the charges of all regions, in one order, and ends.
func TestAListPagesThroughAllRegions(t *testing.T) {
	b, all := someCharges(20)
	p := listing(b)
	for what, c := range map[string]struct {
		list List
		want func(i int, t ledger.Transaction) bool
	}{
		"all":      {List{}, func(int, ledger.Transaction) bool { return true }},
		"an order": {List{OrderID: "order-1"}, func(_ int, t ledger.Transaction) bool { return t.Order == "order-1" }},
		"a time": {List{From: firstUse.Add(2 * time.Second), Until: firstUse.Add(5 * time.Second)}, func(_ int, t ledger.Transaction) bool {
			return !t.Created.Before(firstUse.Add(2*time.Second)) && t.Created.Before(firstUse.Add(5*time.Second))
		}},
		"none": {List{OrderID: "order-9"}, func(int, ledger.Transaction) bool { return false }},
	} {
		var want []string
		for i, t := range all {
			if c.want(i, t) {
				want = append(want, t.ID)
			}
		}
		for _, limit := range []int{1, 3, 100} {
			l := c.list
			l.Tenant, l.Limit = "acme", limit
			var got []string
			for more := true; more; l.After = got[len(got)-1] {
				var page []json.RawMessage
				var err error
				page, more, err = p.Charges(t.Context(), l)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				if got = append(got, idsOf(t, page)...); len(got) == 0 {
					require.False(t, more, what)
					break
				}
			}
			require.Equal(t, want, got, "%s, %d at a time", what, limit)
			if len(want) < 2 {
				continue
			}
			l.After, l.Before = "", want[len(want)-1]
			var back []string
			for more := true; more; l.Before = back[0] {
				var page []json.RawMessage
				var err error
				page, more, err = p.Charges(t.Context(), l)
				require.NoError(t, err)
				back = append(idsOf(t, page), back...)
			}
			require.Equal(t, want[:len(want)-1], back, "%s, back %d at a time", what, limit)
		}
	}
}

// What is listed is what a read of each shows, as far as the books have it.
func TestAListShowsWhatAReadShows(t *testing.T) {
	b, all := someCharges(6)
	refunded, disputed, failed, twice := all[0], all[1], all[2], all[3]
	b.add(backTo(refunded, "re_1", "asia", 500))
	b.add(ledger.FailureOf(b.add(backTo(refunded, "re_2", "america", 300))))
	b.add(ledger.UnaskedOf(refunded, ledger.ProviderRefund, "px_desk", 9))
	b.add(ledger.UnaskedOf(disputed, ledger.DisputeOpened, "du_1", 100))
	b.add(ledger.UnaskedOf(disputed, ledger.DisputeLost, "du_1", 100))
	b.add(ledger.FailureOf(failed))
	ghost := twice
	ghost.ID, ghost.Kind, ghost.ProviderRef = ledger.GhostID("px", "second"), ledger.Ghost, "second"
	b.add(ghost)
	back := backTo(ghost, ledger.GhostRefundID("px", "second"), ghost.Region, ghost.Amount)
	back.Kind, back.Object = ledger.GhostRefund, "re_g"
	b.add(back)
	p := listing(b)
	p.Claims = row{}
	page, more, err := p.Charges(t.Context(), List{Tenant: "acme", Limit: 10})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, page, 6)
	members := func(body []byte) (m map[string]any) {
		require.NoError(t, json.Unmarshal(body, &m))
		return m
	}
	for i, item := range page {
		_, resp, found, err := p.Object(t.Context(), "acme", all[i].Region, all[i].ID)
		require.NoError(t, err)
		require.True(t, found)
		want := members(resp.Body)
		delete(want, "as_of")
		delete(want, "refunds") // a list has their sum
		require.Equal(t, want, members(item))
	}
	require.Equal(t, float64(509), members(page[0])["amount_refunded"])
	require.Equal(t, all[0].Order, members(page[0])["order_id"])
	require.Equal(t, "lost", members(page[1])["disputes"].([]any)[0].(map[string]any)["status"])
	require.Equal(t, "failed", members(page[2])["status"])
	require.Equal(t, "refunded", members(page[3])["compensations"].([]any)[0].(map[string]any)["status"])
}

// A list without the charges of a region, or without what has become of them, would look whole.
func TestAListIsWholeOrFails(t *testing.T) {
	b, all := someCharges(6)
	for _, c := range []struct {
		lost string
		far  error
	}{{lost: "asia"}, {far: claim.ErrHomeUnreachable}} {
		b.lost, b.far = c.lost, c.far
		_, _, err := listing(b).Charges(t.Context(), List{Tenant: "acme", Limit: 10})
		require.ErrorIs(t, err, claim.ErrHomeUnreachable)
	}
	b.lost, b.far = "", nil
	globex := ""
	for _, t := range b.all {
		if t.Tenant == "globex" {
			globex = t.ID
		}
	}
	for _, id := range []string{chargeOf(1), globex, "re_1", "ch_1"} {
		for _, l := range []List{{After: id}, {Before: id}} {
			l.Tenant, l.Limit = "acme", 10
			_, _, err := listing(b).Charges(t.Context(), l)
			require.ErrorAs(t, err, new(*CursorError), id)
		}
	}
	_, _, err := listing(b).Charges(t.Context(), List{Tenant: "acme", After: chargeOf(9), Limit: 10})
	require.ErrorIs(t, err, claim.ErrHomeUnreachable, "a region that this node may not have read yet proves nothing")
	require.Len(t, all, 6)
}

// One charge is listed as any, and only if it is in a list.
func TestAListOfOneCharge(t *testing.T) {
	b, all := someCharges(6)
	b.add(backTo(all[2], "re_1", "asia", 500))
	p := listing(b)
	whole, _, err := p.Charges(t.Context(), List{Tenant: "acme", Limit: 10})
	require.NoError(t, err)
	for i, one := range all {
		page, more, err := p.Charges(t.Context(), List{Tenant: "acme", Charge: one.ID, Limit: 10})
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, whole[i:i+1], page)
	}
	ghost := ghostOf(all[0], "g1")
	b.add(ghost)
	for _, l := range []List{{Tenant: "acme", Charge: chargeOf(1)}, {Tenant: "globex", Charge: all[0].ID}, {Tenant: "acme", Charge: ghost.ID}, {Tenant: "acme", Charge: "re_1"}} {
		page, more, err := p.Charges(t.Context(), l)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, []json.RawMessage{}, page, "what waits, or is another's, is in no list")
	}
	_, _, err = p.Charges(t.Context(), List{Tenant: "acme", Charge: chargeOf(9)})
	require.ErrorIs(t, err, claim.ErrHomeUnreachable)
	b.far = claim.ErrHomeUnreachable
	_, _, err = p.Charges(t.Context(), List{Tenant: "acme", Charge: all[0].ID})
	require.ErrorIs(t, err, claim.ErrHomeUnreachable, "what has become of it is not known")
}
