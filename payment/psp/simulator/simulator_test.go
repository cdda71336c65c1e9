package simulator

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// inMemoryAndOnDisk runs a test for both kinds of simulator.
func inMemoryAndOnDisk(t *testing.T, run func(t *testing.T, s *Simulator)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, open(t, Config{})) })
	t.Run("disk", func(t *testing.T) { run(t, open(t, Config{Dir: t.TempDir()})) })
}

func TestTokens(t *testing.T) {
	inMemoryAndOnDisk(t, func(t *testing.T, s *Simulator) {
		for i, c := range []struct {
			path, source string
			status       int
			want         string
		}{
			{"charges", "pm_card_visa", 200, "succeeded"},
			{"charges", "pm_card_anything_else", 200, "succeeded"},
			{"charges", "pm_card_insufficient_funds", 402, "insufficient_funds"},
			{"charges", "pm_card_stolen", 402, "stolen_card"},
			{"charges", "pm_unheard_of", 402, "invalid_payment_method"},
			{"charges", "acct_1", 402, "invalid_payment_method"},
			{"transfers", "acct_supplier", 200, "succeeded"},
			{"transfers", "acct_closed", 402, "account_closed"},
			{"transfers", "pm_card_visa", 402, "invalid_destination"},
			{"refunds", "psp_ch_000000000001", 200, "succeeded"},
			{"refunds", "psp_ch_000000000002", 402, "refund_exceeds_charge"}, // 1251 of 1250, see below
			{"refunds", "psp_ch_000000000003", 402, "charge_not_found"},      // a decline
			{"refunds", "psp_ch_000000000007", 402, "charge_not_found"},      // a transfer
			{"refunds", "psp_ch_00000000ffff", 402, "charge_not_found"},
			{"refunds", "psp_ch_2", 402, "charge_not_found"}, // not how the id is spelt
		} {
			amount := int64(1250)
			if c.want == "refund_exceeds_charge" {
				amount++
			}
			key := fmt.Sprintf("key-%d", i)
			do(s, "POST", "/v1/"+c.path, key, body("obj_"+key, amount, c.source)).want(t, c.status, c.want)
		}
		do(s, "POST", "/v1/refunds", "eur", `{"reference":"re_eur","amount":1,"currency":"eur","source":"psp_ch_000000000002"}`).
			want(t, 402, "currency_mismatch")
		wantSummary(t, s, Summary{Effects: 4, Keys: 16, Refunds: 1})
		if d := s.Stats().Declines; d != 12 {
			t.Errorf("%d declines, want 12", d)
		}
	})
}

func TestExactReplies(t *testing.T) {
	s := open(t, Config{})
	for _, c := range []struct{ got, want reply }{
		{charge(s, "a", "ch_1", "pm_card_visa"),
			reply{200, `{"id":"psp_ch_000000000001","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd","created":1772366400}`}},
		{charge(s, "b", "ch_2", "pm_card_stolen"),
			reply{402, `{"error":{"class":"hard","code":"stolen_card","message":"The card was reported stolen."}}`}},
		{do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", ""),
			reply{200, `{"id":"psp_ch_000000000001","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd","created":1772366400}`}},
		{do(s, "GET", "/v1/lookup?kind=charge&reference=ch_2", "", ""),
			reply{200, `{"status":"declined","reference":"ch_2","amount":1250,"currency":"usd","created":1772366400,"error":{"class":"hard","code":"stolen_card","message":"The card was reported stolen."}}`}},
		{do(s, "GET", "/_sim/summary", "", ""),
			reply{200, `{"effects":1,"keys":2,"duplicate_effects":0,"refunds":0,"calls":2}`}},
		{do(s, "GET", "/_sim/effects", "", ""),
			reply{200, `{"provider_key":"a","reference":"ch_1","kind":"charge","amount":1250,"currency":"usd","at":"2026-03-01T12:00:00.0000005Z"}`}},
	} {
		c.want.body += "\n"
		if c.got != c.want {
			t.Errorf("got  %d %s want %d %s", c.got.status, c.got.body, c.want.status, c.want.body)
		}
	}
}

func TestSameKeyRepeatsItsReply(t *testing.T) {
	inMemoryAndOnDisk(t, func(t *testing.T, s *Simulator) {
		for _, source := range []string{"pm_card_visa", "pm_card_insufficient_funds_once", "pm_card_stolen", "pm_x"} {
			first := charge(s, source, "ch_"+source, source)
			for range 3 {
				if again := charge(s, source, "ch_"+source, source); again != first {
					t.Errorf("%s: got %+v, then %+v", source, first, again)
				}
			}
		}
		wantSummary(t, s, Summary{Effects: 1, Keys: 4})
		if n := s.Summary().Calls; n != 16 {
			t.Errorf("%d calls, want 16", n)
		}
	})
}

func TestInsufficientFundsOnce(t *testing.T) {
	s := open(t, Config{})
	const once = "pm_card_insufficient_funds_once"
	charge(s, "k1", "ch_1", once).want(t, 402, "insufficient_funds")
	charge(s, "k1", "ch_1", once).want(t, 402, "insufficient_funds") // its own cached decline
	charge(s, "k2", "ch_1", once).want(t, 200, "succeeded")
	charge(s, "k1", "ch_1", once).want(t, 402, "insufficient_funds") // and still
	charge(s, "k3", "ch_2", once).want(t, 402, "insufficient_funds") // another reference
	do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", "").want(t, 200, "succeeded")
	do(s, "GET", "/v1/lookup?kind=charge&reference=ch_2", "", "").want(t, 200, "declined")
	wantSummary(t, s, Summary{Effects: 1, Keys: 3})
}

func TestChangedParameters(t *testing.T) {
	inMemoryAndOnDisk(t, func(t *testing.T, s *Simulator) {
		const first = `{"reference":"ch_1","amount":1250,"currency":"usd","source":"pm_card_visa","description":"d"}`
		do(s, "POST", "/v1/charges", "k", first).want(t, 200, "succeeded")
		changed := 0
		for _, change := range [][2]string{
			{"ch_1", "ch_2"}, {"1250", "1251"}, {"usd", "eur"}, {"pm_card_visa", "pm_card_stolen"}, {`"d"`, `"e"`},
		} {
			do(s, "POST", "/v1/charges", "k", strings.Replace(first, change[0], change[1], 1)).want(t, 409, "key_reuse")
			changed++
		}
		do(s, "POST", "/v1/transfers", "k", first).want(t, 409, "key_reuse")
		changed++
		do(s, "POST", "/v1/charges", "k", first).want(t, 200, "succeeded")
		wantSummary(t, s, Summary{Effects: 1, Keys: 1})
		if n := s.Stats().KeyReuses; n != int64(changed) {
			t.Errorf("%d key reuses, want %d", n, changed)
		}
	})
}

func TestIgnoreParametersRepeatsTheFirstReply(t *testing.T) {
	s := open(t, Config{IgnoreParameters: true})
	first := charge(s, "k", "ch_1", "pm_card_visa")
	if got := charge(s, "k", "ch_2", "pm_card_stolen"); got != first {
		t.Errorf("got %+v, want %+v", got, first)
	}
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
}

func TestEveryDuplicateIsCounted(t *testing.T) {
	inMemoryAndOnDisk(t, func(t *testing.T, s *Simulator) {
		for range 3 { // no key: each call is a movement
			charge(s, "", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
		}
		for _, key := range []string{"a", "b"} { // two keys for one object
			charge(s, key, "ch_2", "pm_card_visa").want(t, 200, "succeeded")
		}
		charge(s, "", "ch_3", "pm_card_stolen").want(t, 402, "stolen_card")
		charge(s, "", "ch_3", "pm_card_visa").want(t, 200, "succeeded")                             // first movement, after a decline
		do(s, "POST", "/v1/transfers", "c", body("ch_3", 1250, "acct_1")).want(t, 200, "succeeded") // another kind
		wantSummary(t, s, Summary{Effects: 7, Keys: 3, DuplicateEffects: 3})
	})
}

func TestRefundsNeverExceedTheCharge(t *testing.T) {
	s := open(t, Config{})
	charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
	refund := func(key string, amount int64) reply {
		return do(s, "POST", "/v1/refunds", key, body("re_"+key, amount, "psp_ch_000000000001"))
	}
	refund("a", 1000).want(t, 200, "succeeded")
	refund("a", 1000).want(t, 200, "succeeded") // a repeat refunds nothing more
	refund("b", 251).want(t, 402, "refund_exceeds_charge")
	refund("c", math.MaxInt64).want(t, 402, "refund_exceeds_charge")
	refund("d", 250).want(t, 200, "succeeded")
	refund("e", 1).want(t, 402, "refund_exceeds_charge")
	wantSummary(t, s, Summary{Effects: 3, Keys: 6, Refunds: 2})
}

func TestSameKeyAtOnceMovesMoneyOnce(t *testing.T) {
	inMemoryAndOnDisk(t, func(t *testing.T, s *Simulator) {
		const keys, callers = 20, 32
		replies := make([][callers]reply, keys)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for k := range keys {
			for c := range callers {
				wg.Go(func() {
					<-start
					replies[k][c] = charge(s, fmt.Sprint("k", k), fmt.Sprint("ch_", k), "pm_card_visa")
				})
			}
		}
		close(start)
		wg.Wait()
		for k := range keys {
			replies[k][0].want(t, 200, "succeeded")
			for _, r := range replies[k] {
				if r != replies[k][0] {
					t.Fatalf("key %d: %+v and %+v", k, replies[k][0], r)
				}
			}
		}
		wantSummary(t, s, Summary{Effects: keys, Keys: keys})
	})
}

func TestLookup(t *testing.T) {
	s := open(t, Config{})
	charge(s, "k", "ch_1", "pm_card_visa")
	for query, want := range map[string]struct {
		status int
		code   string
	}{
		"kind=charge&reference=ch_1":   {200, "succeeded"},
		"kind=charge&reference=ch_2":   {404, "not_found"},
		"kind=transfer&reference=ch_1": {404, "not_found"},
		"kind=loan&reference=ch_1":     {400, "invalid_request"},
		"kind=charge":                  {400, "invalid_request"},
	} {
		do(s, "GET", "/v1/lookup?"+query, "", "").want(t, want.status, want.code)
	}
}

func TestBadRequestsLeaveNothing(t *testing.T) {
	s := open(t, Config{})
	const good = `{"reference":"ch_1","amount":1250,"currency":"usd","source":"pm_card_visa"}`
	long := strings.Repeat("x", maxText+1)
	for name, c := range map[string]struct {
		key, body, names string
		status           int
	}{
		"not JSON":          {"k", `{`, "body", 400},
		"two values":        {"k", good + good, "body", 400},
		"unknown member":    {"k", strings.Replace(good, "{", `{"tip":1,`, 1), "tip", 400},
		"fraction":          {"k", strings.Replace(good, "1250", "12.5", 1), "amount", 400},
		"zero":              {"k", strings.Replace(good, "1250", "0", 1), "amount", 400},
		"negative":          {"k", strings.Replace(good, "1250", "-1", 1), "amount", 400},
		"over int64":        {"k", strings.Replace(good, "1250", "9223372036854775808", 1), "amount", 400},
		"no reference":      {"k", strings.Replace(good, "ch_1", "", 1), "reference", 400},
		"reference blank":   {"k", strings.Replace(good, "ch_1", "ch 1", 1), "reference", 400},
		"reference long":    {"k", strings.Replace(good, "ch_1", long, 1), "reference", 400},
		"source long":       {"k", strings.Replace(good, "pm_card_visa", long, 1), "source", 400},
		"no source":         {"k", strings.Replace(good, "pm_card_visa", "", 1), "source", 400},
		"currency case":     {"k", strings.Replace(good, "usd", "USD", 1), "currency", 400},
		"currency length":   {"k", strings.Replace(good, "usd", "usdt", 1), "currency", 400},
		"key long":          {long, good, "Idempotency-Key", 400},
		"key not ASCII":     {"k\xff", good, "Idempotency-Key", 400},
		"body over the max": {"k", strings.Repeat(" ", maxBody) + good, "body", 413},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(s, "POST", "/v1/charges", c.key, c.body)
			r.want(t, c.status, "invalid_request")
			if !strings.Contains(r.body, c.names) {
				t.Errorf("%s does not name %s", r.body, c.names)
			}
		})
	}
	wantSummary(t, s, Summary{})
	do(s, "POST", "/v1/charges", "k", good).want(t, 200, "succeeded") // a refusal is not remembered
	if r := do(s, "GET", "/v1/charges", "", ""); r.status != 405 {
		t.Errorf("GET: got %+v, want 405", r)
	}
}

// More effects than a page, of which some are declines, all come, in order.
func TestEffectsAcrossPages(t *testing.T) {
	s := open(t, Config{})
	const n = 2*effectsPage + 7
	var want []string
	for i := range n {
		c := call(fmt.Sprint("k", i), fmt.Sprint("ch_", i))
		if i%3 == 0 {
			c.Source = "pm_card_stolen"
		} else {
			want = append(want, c.Reference)
		}
		if _, _, err := s.decide(c); err != nil {
			t.Fatal(err)
		}
	}
	effects := s.Effects()
	lines := strings.Split(strings.TrimSpace(do(s, "GET", "/_sim/effects", "", "").body), "\n")
	if len(effects) != len(want) || len(lines) != len(want) {
		t.Fatalf("%d effects, %d lines, want %d", len(effects), len(lines), len(want))
	}
	for i, ref := range want {
		var line Effect
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		if effects[i].Reference != ref || line != effects[i] || line.Kind != psp.KindCharge {
			t.Fatalf("effect %d: %+v, line %+v, want %s", i, effects[i], line, ref)
		}
	}
}

func TestClosedRefusesAndCloseRepeats(t *testing.T) {
	inMemoryAndOnDisk(t, func(t *testing.T, s *Simulator) {
		charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
		closeNow(t, s)
		closeNow(t, s)
		charge(s, "k2", "ch_2", "pm_card_visa").want(t, 503, "storage")
		wantSummary(t, s, Summary{Effects: 1, Keys: 1})
	})
}
