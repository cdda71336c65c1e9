package simulator

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// StatementLine is one movement of money as the provider's statement has it.
type StatementLine struct {
	// ID is the provider's own id of the movement.
	ID string `json:"id"`
	// Kind has the suffix "_failed" in a line that reverses the movement of the same
	// id, at the time when it failed.
	Kind      psp.Kind `json:"kind"`
	Reference string   `json:"reference"`
	// Of is the provider's id of the charge that was refunded or disputed, of the
	// transfer that was reversed, or of the payout that was returned.
	Of string `json:"of,omitempty"`
	// Amount is in minor units of Currency, above 0 whatever the kind.
	Amount   int64     `json:"amount"`
	Currency string    `json:"currency"`
	Created  time.Time `json:"created"`

	entry int // its record
}

// statementHeader names the columns of the CSV form.
var statementHeader = []string{"id", "kind", "reference", "of", "amount", "currency", "created"}

// Statement selects the statement that [Simulator.WriteStatement] writes.
type Statement struct {
	// Format is "csv", with a header line, "jsonl", or "stripe": Stripe's report "Balance
	// change from activity", itemized, with payouts, settled as Settlement says.
	Format     string
	Settlement Settlement
	// From <= created < To; a zero time is no bound.
	From, To time.Time
	// Stripe and Adyen spell ids as that provider's API does.
	Stripe, Adyen bool
}

// WriteStatement writes the movements in the order they were made. It holds one page of
// them in memory, and writes none that is not durable.
func (s *Simulator) WriteStatement(w io.Writer, q Statement) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var line func(StatementLine) error
	flush := out.Flush
	switch q.Format {
	case "csv":
		enc, row := csv.NewWriter(out), make([]string, len(statementHeader))
		line = func(l StatementLine) error {
			row[0], row[1], row[2], row[3] = l.ID, string(l.Kind), l.Reference, l.Of
			row[4], row[5], row[6] = strconv.FormatInt(l.Amount, 10), l.Currency, l.Created.Format(time.RFC3339Nano)
			return enc.Write(row)
		}
		flush = func() error { enc.Flush(); return errors.Join(enc.Error(), out.Flush()) }
		if err := enc.Write(statementHeader); err != nil {
			return err
		}
	case "jsonl":
		enc := json.NewEncoder(out)
		line = func(l StatementLine) error { return enc.Encode(l) }
	case "stripe":
		w, err := newStripeWriter(out, q.Settlement)
		if err != nil {
			return err
		}
		q.Stripe, line = true, w.line
		flush = func() error { w.enc.Flush(); return errors.Join(w.enc.Error(), out.Flush()) }
	default:
		return fmt.Errorf("simulator: statement format %q: use csv, jsonl or stripe", q.Format)
	}
	page := make([]StatementLine, 0, effectsPage)
	for i, more := 0, true; more; {
		page, i, more = s.statement(page[:0], i, q)
		for _, l := range page {
			if err := line(l); err != nil {
				return err
			}
		}
	}
	return flush()
}

// statement appends the movements among a page of records, see effects.
func (s *Simulator) statement(page []StatementLine, i int, q Statement) (_ []StatementLine, next int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := formatID
	switch {
	case q.Stripe:
		id = stripeID
	case q.Adyen:
		id = adyenID
	}
	end := min(i+effectsPage, s.durable)
	for ; i < end; i++ {
		r, n, failed := s.reported(i)
		at := time.Unix(0, r.at).UTC()
		what, unasked := s.book.happening(i)
		if r.outcome != approved && !failed && !(unasked && what.moves()) || (!q.From.IsZero() && at.Before(q.From)) || (!q.To.IsZero() && !at.Before(q.To)) {
			continue
		}
		l := StatementLine{
			ID: id(r.kind(), n), Kind: r.kind(), Reference: r.reference(),
			Amount: r.amount, Currency: string(r.currency[:]), Created: at, entry: i,
		}
		if unasked {
			l.Kind, l.ID, l.Of, l.Reference = what.kind, what.id(q.Stripe), what.of(q.Stripe), ""
			if at := what.adyenID(); q.Adyen && at != "" {
				l.ID, l.Of = at, adyenID(psp.KindCharge, what.movement)
				if what.second {
					l.ID += secondMark
				}
			}
			page = append(page, l)
			continue
		}
		if failed {
			l.Kind += "_failed"
		}
		if c, ok := s.book.refundOf[uint32(n)]; ok {
			l.Of = id(psp.KindCharge, int(c))
		}
		page = append(page, l)
	}
	return page, i, i < s.durable
}

func (s *Simulator) serveStatement(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	q := Statement{Format: query.Get("format"), Stripe: query.Get("ids") == "stripe", Adyen: query.Get("ids") == "adyen"}
	if q.Format == "" {
		q.Format = "csv"
	}
	if q.Format != "csv" && q.Format != "jsonl" && q.Format != "stripe" {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", "format: must be csv, jsonl or stripe")
		return
	}
	var err error
	if q.Settlement, err = readSettlement(query); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", err.Error())
		return
	}
	for name, to := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		v := query.Get(name)
		if v == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			refuse(w, http.StatusBadRequest, "invalid", "invalid_request", name+": must be a time as in RFC 3339, such as 2026-03-01T00:00:00Z")
			return
		}
		*to = at
	}
	if q.Format != "jsonl" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/x-ndjson")
	}
	_ = s.WriteStatement(w, q) // the reader has disconnected
}
