package wan

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	us = "us-east1"
	eu = "europe-west1"
	as = "asia-northeast1"
)

func TestTravelWaitsForTheDistanceBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(map[Pair]time.Duration{{us, eu}: 64 * time.Millisecond})
		for _, w := range []way{{us, eu}, {eu, us}} {
			start := time.Now()
			if err := n.Travel(t.Context(), w.from, w.to); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != 64*time.Millisecond {
				t.Errorf("%v took %v, want 64ms", w, got)
			}
		}
		n.SetDistance(eu, us, 10*time.Millisecond)
		start := time.Now()
		if err := n.Travel(t.Context(), us, eu); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 10*time.Millisecond {
			t.Errorf("after SetDistance it took %v, want 10ms", got)
		}
	})
}

func TestTravelInsideARegionIsFreeAndNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Defaults([]string{us, eu}))
		start := time.Now()
		if err := n.Travel(t.Context(), us, us); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 0 || n.TotalTrips() != 0 {
			t.Errorf("took %v, counted %d", d, n.TotalTrips())
		}
	})
}

func TestTravelHonoursTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(map[Pair]time.Duration{{us, eu}: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := n.Travel(ctx, us, eu)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPartitioned) {
			t.Errorf("err = %v", err)
		}
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("took %v", d)
		}
		if n.Trips(us, eu) != 1 {
			t.Errorf("a begun trip must count")
		}
		if err := n.Travel(ctx, us, eu); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if n.Trips(us, eu) != 1 {
			t.Errorf("a trip that never began must not count")
		}
	})
}

func TestFaults(t *testing.T) {
	n := New(nil)
	ctx := t.Context()
	reach := func(from, to string) bool {
		t.Helper()
		err := n.Travel(ctx, from, to)
		if err != nil && !errors.Is(err, ErrPartitioned) {
			t.Fatalf("err = %v", err)
		}
		return err == nil
	}
	n.Cut(us, eu)
	if reach(us, eu) || reach(eu, us) || !reach(us, as) || !reach(eu, eu) {
		t.Error("Cut must cut both ways of that pair and nothing else")
	}
	n.Heal(eu, us)
	if !reach(us, eu) || !reach(eu, us) {
		t.Error("Heal must open both ways, whatever the order of the names")
	}
	n.CutOneWay(us, eu)
	if reach(us, eu) || !reach(eu, us) {
		t.Error("CutOneWay must cut trips that start in us only")
	}
	n.Heal(us, eu)
	if !reach(us, eu) {
		t.Error("Heal must end a one-way cut")
	}
	err := func() error { n.Cut(us, eu); return n.Travel(ctx, us, eu) }()
	if !strings.Contains(err.Error(), us) || !strings.Contains(err.Error(), eu) {
		t.Errorf("the error must name both regions: %v", err)
	}
}

func TestBlackholeHangsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(nil)
		n.Blackhole(us, eu)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Travel(ctx, us, eu) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("returned %v before its context ended", err)
		default:
		}
		cancel()
		err := <-done
		if !errors.Is(err, ErrPartitioned) || !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestTripsAreCountedPerDirection(t *testing.T) {
	n := New(nil)
	n.Cut(us, as)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _ = n.Travel(t.Context(), us, eu) })
		wg.Go(func() { _ = n.Travel(t.Context(), eu, us) })
		wg.Go(func() { _ = n.Travel(t.Context(), us, as) })
	}
	wg.Wait()
	if a, b, c, all := n.Trips(us, eu), n.Trips(eu, us), n.Trips(us, as), n.TotalTrips(); a != 50 || b != 50 || c != 50 || all != 150 {
		t.Errorf("counts %d %d %d, total %d", a, b, c, all)
	}
	n.ResetTrips()
	if n.TotalTrips() != 0 || n.Trips(us, eu) != 0 {
		t.Error("ResetTrips left counts")
	}
}

func TestNilNetworkIsFree(t *testing.T) {
	var n *Network
	if err := n.Travel(t.Context(), us, eu); err != nil {
		t.Fatal(err)
	}
	n.Cut(us, eu)
	n.SetDistance(us, eu, time.Hour)
	n.ResetTrips()
	if n.TotalTrips() != 0 || n.Trips(us, eu) != 0 || n.Distance(us, eu) != 0 || n.String() != "" {
		t.Error("a nil network must have no regions")
	}
	base := &http.Transport{}
	if n.RoundTripper(base, us, nil) != http.RoundTripper(base) {
		t.Error("a nil network must leave the transport as it is")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Travel(ctx, us, eu); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context must be reported: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	d := Defaults([]string{as, eu, us, "mars-north1"})
	if len(d) != 6 {
		t.Fatalf("%d pairs, want 6", len(d))
	}
	n := New(d)
	for pair, want := range map[Pair]time.Duration{
		{us, eu}:            64 * time.Millisecond,
		{eu, us}:            64 * time.Millisecond,
		{us, as}:            150 * time.Millisecond,
		{eu, as}:            220 * time.Millisecond,
		{us, "mars-north1"}: UnknownDistance,
	} {
		if got := n.Distance(pair.A, pair.B); got != want {
			t.Errorf("%v: %v, want %v", pair, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	regions := []string{us, eu, as}
	defaults := Defaults(regions)
	got, err := Parse(" europe-west1 : us-east1 = 80ms , us-east1:asia-northeast1=0s", regions, defaults)
	if err != nil {
		t.Fatal(err)
	}
	n := New(got)
	if n.Distance(us, eu) != 80*time.Millisecond || n.Distance(us, as) != 0 || n.Distance(eu, as) != 220*time.Millisecond {
		t.Errorf("parsed %v", n)
	}
	if New(defaults).Distance(us, eu) != 64*time.Millisecond {
		t.Error("Parse wrote to the defaults")
	}
	if again, err := Parse(n.String(), regions, nil); err != nil || New(again).String() != n.String() {
		t.Errorf("String is not in Parse's form: %v %v", err, n)
	}
	if empty, err := Parse("  ", regions, defaults); err != nil || len(empty) != 3 {
		t.Errorf("empty text: %v, %v", empty, err)
	}
	for text, want := range map[string]string{
		"us-east1:europe-west9=80ms":                          `unknown region "europe-west9"`,
		"us-east1:europe-west1=80":                            `bad round-trip time "80"`,
		"us-east1:europe-west1=-1ms":                          `bad round-trip time "-1ms"`,
		"us-east1:europe-west1=80m":                           `bad round-trip time "80m"`,
		"us-east1:us-east1=80ms":                              "names one region twice",
		"us-east1=80ms":                                       "is not a distance",
		"us-east1:europe-west1":                               "is not a distance",
		"us-east1:europe-west1=80ms,":                         "is not a distance",
		"us-east1:europe-west1=8ms,europe-west1:us-east1=9ms": "given twice",
	} {
		_, err := Parse(text, regions, defaults)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line with %q", text, err, want)
		}
	}
}

func TestRoundTripperChargesEachRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	n := New(nil)
	to := eu
	base := &http.Transport{}
	client := &http.Client{Transport: n.RoundTripper(base, us, func(host string) string {
		if host != strings.TrimPrefix(server.URL, "http://") {
			t.Errorf("called for the region of %q", host)
		}
		return to
	})}
	defer client.CloseIdleConnections()
	get := func() error {
		resp, err := client.Get(server.URL)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			err = resp.Body.Close()
		}
		return err
	}
	for range 2 {
		if err := get(); err != nil {
			t.Fatal(err)
		}
	}
	if n.Trips(us, eu) != 2 {
		t.Errorf("%d trips, want 2", n.Trips(us, eu))
	}
	n.Cut(us, eu)
	if err := get(); !errors.Is(err, ErrPartitioned) {
		t.Errorf("err = %v, want ErrPartitioned", err)
	}
	to = "" // unknown: free
	if err := get(); err != nil || n.TotalTrips() != 3 {
		t.Errorf("err = %v, %d trips", err, n.TotalTrips())
	}
}
