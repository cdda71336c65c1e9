package simulator

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestStatement(t *testing.T) {
	now := birth
	s := open(t, Config{Now: func() time.Time { return now }})
	charge(s, "a", "ch_1", "pm_card_visa")
	charge(s, "b", "ch_2", "pm_card_stolen") // not on it
	now = now.Add(time.Hour)
	do(s, "POST", "/v1/transfers", "c", body("tr_1", 7, "acct_1"))
	now = now.Add(time.Hour)
	do(s, "POST", "/v1/refunds", "d", body("re_1", 250, "psp_ch_000000000001"))
	const (
		header = "id,kind,reference,of,amount,currency,created\n"
		one    = "psp_ch_000000000001,charge,ch_1,,1250,usd,2026-03-01T12:00:00.0000005Z\n"
		two    = "psp_tr_000000000003,transfer,tr_1,,7,usd,2026-03-01T13:00:00.0000005Z\n"
		three  = "psp_re_000000000004,refund,re_1,psp_ch_000000000001,250,usd,2026-03-01T14:00:00.0000005Z\n"
	)
	for query, want := range map[string]string{
		"":                                 header + one + two + three,
		"?format=csv":                      header + one + two + three,
		"?from=2026-03-01T12:30:00Z":       header + two + three,
		"?to=2026-03-01T14:00:00.0000005Z": header + one + two,
		"?from=2026-03-01T13:00:00.0000005Z&to=2026-03-01T13:30:00Z": header + two,
		"?from=2027-01-01T00:00:00Z":                                 header,
		"?format=jsonl&from=2026-03-01T13:30:00Z":                    `{"id":"psp_re_000000000004","kind":"refund","reference":"re_1","of":"psp_ch_000000000001","amount":250,"currency":"usd","created":"2026-03-01T14:00:00.0000005Z"}` + "\n",
		"?format=jsonl&to=2026-03-01T13:00:00Z&ids=stripe":           `{"id":"pi_000000000001","kind":"charge","reference":"ch_1","amount":1250,"currency":"usd","created":"2026-03-01T12:00:00.0000005Z"}` + "\n",
	} {
		if r := do(s, "GET", "/_sim/statement"+query, "", ""); r.status != 200 || r.body != want {
			t.Errorf("%s: got %d\n%swant\n%s", query, r.status, r.body, want)
		}
	}
	do(s, "GET", "/_sim/statement?format=pdf", "", "").want(t, 400, "invalid_request")
	do(s, "GET", "/_sim/statement?from=yesterday", "", "").want(t, 400, "invalid_request")
}

// A long statement is whole, across pages, and is not held in memory: what it
// allocates does not grow with it.
func TestStatementIsStreamed(t *testing.T) {
	s := open(t, Config{})
	const n = 200_000
	for i := range n {
		if _, _, err := s.decide(call("", fmt.Sprintf("ch_%06d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []string{"csv", "jsonl"} {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(s.WriteStatement(w, Statement{Format: format})) }()
		lines, most := 0, uint64(0)
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for in := bufio.NewScanner(r); in.Scan(); lines++ {
			if format == "csv" && lines > 0 && !strings.Contains(in.Text(), fmt.Sprintf(",ch_%06d,", lines-1)) {
				t.Fatalf("line %d is %s", lines, in.Text())
			}
			if lines%50_000 == 49_999 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				if now.HeapAlloc > before.HeapAlloc {
					most = max(most, now.HeapAlloc-before.HeapAlloc)
				}
			}
		}
		want := n
		if format == "csv" {
			want++
		}
		if lines != want {
			t.Errorf("%s: %d lines, want %d", format, lines, want)
		}
		if most > 4<<20 {
			t.Errorf("%s: %d bytes held for %d lines", format, most, n)
		}
	}
	if s.WriteStatement(io.Discard, Statement{Format: "pdf"}) == nil {
		t.Error("a format that is not there was written")
	}
}
