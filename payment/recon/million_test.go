package recon

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// TestMillion measures a comparison of as many lines as HOMEWARD_RECON_LINES says,
// with books and claims of as many rows, which are made up as they are read. Every
// thousandth line has another amount than is booked.
func TestMillion(t *testing.T) {
	lines, _ := strconv.Atoi(os.Getenv("HOMEWARD_RECON_LINES"))
	if lines <= 0 {
		t.Skip("set HOMEWARD_RECON_LINES to the number of lines to compare, as in 1000000")
	}
	const each = 1000
	c := Config{
		Books: &madeUp{lines: lines}, Claims: &madeUp{lines: lines}, Provider: pspName, Regions: []string{home}, Dir: t.TempDir(),
		Home:  func(c claim.RegionCode) (string, bool) { return home, c == 1 },
		Found: func(context.Context, Mismatch) error { return nil },
	}
	statement := &generated{lines: lines, line: func(b []byte, n int) []byte {
		amount := 100
		if n%each == 0 {
			amount++
		}
		return fmt.Appendf(b, "p%d,charge,%s,%d,usd,%d\n", n, madeUpID(n), amount, noon.Unix())
	}}
	runtime.GC()
	heap := watchHeap(t.Context())
	begun := time.Now()
	report, err := Run(t.Context(), c, statement, CSV)
	took := time.Since(begun)
	require.NoError(t, err)
	require.Equal(t, Report{
		Lines: lines, Bookings: lines, Claims: lines, Agree: lines - lines/each, Mismatches: map[Class]int{AmountDiffers: lines / each},
	}, *report)
	t.Logf("%d lines, bookings and claims each: %v, %.0f lines/s, peak heap %d MiB", lines, took.Round(time.Millisecond), float64(lines)/took.Seconds(), heap()>>20)
}

// watchHeap looks at the heap, garbage and all, until the most is asked for.
func watchHeap(ctx context.Context) (most func() uint64) {
	ctx, stop := context.WithCancel(ctx)
	peak := make(chan uint64)
	go func() {
		var top uint64
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			top = max(top, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-ctx.Done():
				peak <- top
				return
			}
		}
	}()
	return func() uint64 { stop(); return <-peak }
}

func madeUpID(n int) string {
	var seed [10]byte // some bits of the later bytes are the version's
	binary.BigEndian.PutUint32(seed[:], uint32(n))
	id, err := claim.NewObjectID("ch", 1, bytes.NewReader(seed[:]))
	if err != nil {
		panic(err)
	}
	return id
}

// madeUp has a charge for each line, one a microsecond.
type madeUp struct {
	ledger.Store
	lines int
}

func (m *madeUp) Transactions(_ context.Context, _ string, after ledger.Position, _ time.Time, limit int) (some []ledger.Transaction, _ error) {
	n := 1
	if !after.At.IsZero() {
		n = int(after.At.Sub(noon)/time.Microsecond) + 1
	}
	for ; n <= m.lines && len(some) < limit; n++ {
		id := madeUpID(n)
		some = append(some, ledger.Transaction{
			ID: id, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider(pspName), Credit: ledger.Merchant("acme"),
			Amount: 100, Currency: "usd", Object: id, Provider: pspName, ProviderRef: fmt.Sprint("p", n), At: noon.Add(time.Duration(n) * time.Microsecond),
		})
	}
	return some, nil
}

func (m *madeUp) Settled(_ context.Context, _ string, after claim.Key, limit int) (some []claim.Record, _ error) {
	n := 1
	if after.Value != "" {
		last, err := strconv.Atoi(after.Value)
		if err != nil {
			return nil, err
		}
		n = last + 1
	}
	for ; n <= m.lines && len(some) < limit; n++ {
		some = append(some, claim.Record{
			Key: claim.Key{Tenant: "acme", Value: strconv.Itoa(n)}, Home: home, State: claim.Completed,
			Minted: claim.Minted{ID: madeUpID(n)}, ProviderRef: fmt.Sprint("p", n), SettledAt: noon,
		})
	}
	return some, nil
}

func (m *madeUp) Unpaid(context.Context, string, string) (claim.Unpaid, bool, error) {
	return claim.Unpaid{}, false, nil
}

func (m *madeUp) ByObject(context.Context, string, string) (claim.Record, bool, error) {
	return claim.Record{}, false, nil
}
