package recon

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// Line is one movement of money as a provider states it.
type Line struct {
	// ID is the provider's own reference of the movement.
	ID   string
	Kind psp.Kind
	// Reference is ours: the object's id that was sent along, "" if there was none.
	Reference string
	// Amount is in minor units of Currency, above 0.
	Amount   int64
	Currency string
	// At is when the money moved, by the provider's clock.
	At time.Time
	// Failed: the movement of this ID, which had succeeded, has failed at At, and its
	// money is back where it was.
	Failed bool
}

// Format is how a statement is written. Both have the same members:
//
//	id         the provider's reference of the movement
//	kind       charge, transfer or refund; with _failed behind it where the movement of
//	           the same id, which has a line of its own, has failed since
//	reference  our id of the object; may be empty
//	amount     minor units, a whole number above 0
//	currency   ISO 4217, in any case
//	created    RFC 3339, or seconds since the Unix epoch
//
// Members that are not in this list are ignored: statements have many.
type Format string

// The formats.
const (
	// CSV has the names of its columns in the first line, in any order.
	CSV Format = "csv"
	// JSONLines has one object on each line.
	JSONLines Format = "jsonl"
)

// FormatOf guesses the format from a file's name; CSV for .csv, JSONLines for
// .jsonl, .ndjson and .json.
func FormatOf(name string) (Format, bool) {
	name = strings.ToLower(name)
	for suffix, f := range map[string]Format{".csv": CSV, ".jsonl": JSONLines, ".ndjson": JSONLines, ".json": JSONLines} {
		if strings.HasSuffix(name, suffix) {
			return f, true
		}
	}
	return "", false
}

const (
	// maxLine bounds one line, in bytes: real ones have some 300.
	maxLine = 64 << 10
	// maxText bounds one member of a line, in bytes, as it is kept.
	maxText = 512
)

// StatementError says what is wrong with a statement and where.
type StatementError struct {
	// Line counts from 1.
	Line   int
	Reason string
}

func (e *StatementError) Error() string {
	return fmt.Sprintf("statement, line %d: %s", e.Line, e.Reason)
}

// Read hands every line of a statement to each, in order. It keeps one line in
// memory. The error is a [*StatementError] where the statement is at fault.
func Read(r io.Reader, f Format, each func(Line) error) (lines int, err error) {
	switch f {
	case CSV:
		return readCSV(r, each)
	case JSONLines:
		return readJSON(r, each)
	default:
		return 0, fmt.Errorf("recon: there is no statement format %q; use csv or jsonl", f)
	}
}

// raw is a line before it is checked.
type raw struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Reference string          `json:"reference"`
	Amount    json.Number     `json:"amount"`
	Currency  string          `json:"currency"`
	Created   json.RawMessage `json:"created"`
}

func readJSON(r io.Reader, each func(Line) error) (lines int, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	at := 1
	for ; in.Scan(); at++ {
		text := bytes.TrimSpace(in.Bytes())
		if len(text) == 0 {
			continue
		}
		var v raw
		if err := json.Unmarshal(text, &v); err != nil {
			return lines, &StatementError{at, "is not a JSON object with these members: " + strings.TrimPrefix(err.Error(), "json: ")}
		}
		created := strings.Trim(string(v.Created), `"`)
		if err := handle(v.ID, v.Kind, v.Reference, v.Amount.String(), v.Currency, created, at, each); err != nil {
			return lines, err
		}
		lines++
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return lines, &StatementError{at, errLongLine.Error()}
	} else if err != nil {
		return lines, fmt.Errorf("recon: read statement: %w", err)
	}
	return lines, nil
}

// columns of a CSV statement, as they are handed to handle.
var columns = []string{"id", "kind", "reference", "amount", "currency", "created"}

func readCSV(r io.Reader, each func(Line) error) (lines int, err error) {
	limit := &bounded{in: r}
	in := csv.NewReader(limit)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return 0, csvError(err, 1, "has no line with the names of its columns")
	}
	place := make([]int, len(columns))
	for i, name := range columns {
		place[i] = slices.IndexFunc(head, func(s string) bool {
			return strings.EqualFold(strings.TrimSpace(strings.TrimPrefix(s, "\ufeff")), name)
		})
		if place[i] < 0 {
			return 0, &StatementError{1, "has no column " + name + "; the columns are " + strings.Join(columns, ", ")}
		}
	}
	for at := 1; ; {
		limit.since = 0
		fields, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return lines, csvError(err, at+1, "cannot be read")
		}
		at, _ = in.FieldPos(0)
		f := func(i int) string { return strings.TrimSpace(fields[place[i]]) }
		if err := handle(f(0), f(1), f(2), f(3), f(4), f(5), at, each); err != nil {
			return lines, err
		}
		lines++
	}
}

func csvError(err error, at int, otherwise string) error {
	var parse *csv.ParseError
	switch {
	case errors.As(err, &parse):
		return &StatementError{parse.Line, parse.Err.Error()}
	case errors.Is(err, errLongLine):
		return &StatementError{at, err.Error()}
	case errors.Is(err, io.EOF):
		return &StatementError{at, otherwise}
	default:
		return fmt.Errorf("recon: read statement: %w", err)
	}
}

// bounded fails where a line goes on for too long, be it because there is no new line
// or because a quote is never closed: all of it would be read into memory.
type bounded struct {
	in io.Reader
	// since is how much was read since the last line was whole.
	since int
}

// readAhead is the buffer of csv.Reader: of what it reads for one line, as much may
// be the next one's.
const readAhead = 4096

var errLongLine = fmt.Errorf("is longer than %d bytes", maxLine)

func (b *bounded) Read(to []byte) (int, error) {
	if b.since > maxLine+readAhead {
		return 0, errLongLine
	}
	n, err := b.in.Read(to)
	b.since += n
	return n, err
}

func handle(id, kind, reference, amount, currency, created string, at int, each func(Line) error) error {
	wrong := func(format string, args ...any) error { return &StatementError{at, fmt.Sprintf(format, args...)} }
	base, failed := strings.CutSuffix(strings.ToLower(kind), "_failed")
	l := Line{ID: id, Kind: psp.Kind(base), Failed: failed, Reference: reference, Currency: strings.ToLower(currency)}
	switch {
	case id == "" || len(id) > maxText:
		return wrong("id must have 1 to %d bytes", maxText)
	case l.Kind != psp.KindCharge && l.Kind != psp.KindTransfer && l.Kind != psp.KindRefund:
		return wrong("kind must be charge, transfer or refund, or one of these with _failed, is %.40q", kind)
	case len(reference) > maxText:
		return wrong("reference must have at most %d bytes", maxText)
	case len(l.Currency) != len("usd"):
		return wrong("currency must be an ISO 4217 code, is %.40q", currency)
	}
	var err error
	if l.Amount, err = strconv.ParseInt(amount, 10, 64); err != nil || l.Amount <= 0 || l.Amount > payment.MaxAmount {
		return wrong("amount must be whole minor units from 1 to %d, is %.40q", int64(payment.MaxAmount), amount)
	}
	if seconds, err := strconv.ParseInt(created, 10, 64); err == nil {
		l.At = time.Unix(seconds, 0).UTC()
	} else if l.At, err = time.Parse(time.RFC3339, created); err != nil {
		return wrong("created must be an RFC 3339 time or seconds since 1970, is %.40q", created)
	}
	l.At = l.At.UTC()
	if y := l.At.Year(); y < 1970 || y > 2200 { // what nanoseconds in 64 bits can count, and then some
		return wrong("created must be in the years 1970 to 2200, is %.40q", created)
	}
	return each(l)
}
