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
	// Reference is our id of the object, which was sent with the call; "" if there was
	// none.
	Reference string
	// Amount is in minor units of Currency, above 0.
	Amount   int64
	Currency string
	// At is when the money moved, by the provider's clock.
	At time.Time
	// Failed: the movement of this ID, which had succeeded, failed at At, and its money
	// is back.
	Failed bool
	// Entry is the statement's own id of the line, ID if it has none.
	Entry string
	// Of is the provider's id of the charge or transfer that this movement is about, ""
	// if it is not stated.
	Of string
	// Settled is the currency in which the provider settles the movement with us, Gross
	// its amount in that, in minor units, above 0 as Amount is. Fee is the part that
	// the provider keeps; below 0 if it returns a fee. Settled is Currency if nothing
	// is converted, or stated.
	Settled    string
	Gross, Fee int64
}

// Format names the format of a statement. CSV and JSONLines have the same members:
//
//	id         the provider's reference of the movement
//	kind       charge, transfer or refund; with _failed behind it where the movement of
//	           the same id, which has a line of its own, has failed since; dispute,
//	           dispute_reversal, transfer_reversal, payout, payout_reversal, top_up,
//	           fee or fee_refund, of which of says what it is about
//	reference  our id of the object; may be empty
//	amount     minor units, a whole number above 0
//	currency   ISO 4217, in any case
//	created    RFC 3339, or seconds since the Unix epoch
//	of         may be missing: the provider's reference of the charge or transfer that
//	           this is about
//
// Every other format is a [Mapping]: those that are built in are selected by name, see
// [Mappings]. Members that are not in this list are ignored: statements have many.
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

// StatementError describes an error in a statement, and its position.
type StatementError struct {
	// Line counts from 1.
	Line   int
	Reason string
}

func (e *StatementError) Error() string {
	return fmt.Sprintf("statement, line %d: %s", e.Line, e.Reason)
}

// Read passes every line of a statement to each, in order. It keeps one line in memory.
// The error is a [*StatementError] if the statement is at fault.
func Read(r io.Reader, f Format, each func(Line) error) (lines int, err error) {
	return read(r, f, each, func(string) {})
}

// read is Read. It calls other for each line of an unknown kind, with its name.
func read(r io.Reader, f Format, each func(Line) error, other func(kind string)) (lines int, err error) {
	switch f {
	case CSV:
		return readCSV(r, each, other)
	case JSONLines:
		return readJSON(r, each, other)
	}
	m, err := MappingOf(string(f))
	if err != nil {
		return 0, err
	}
	return m.Read(r, each, other)
}

// raw is a line before it is checked.
type raw struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Reference string          `json:"reference"`
	Amount    json.Number     `json:"amount"`
	Currency  string          `json:"currency"`
	Created   json.RawMessage `json:"created"`
	Of        string          `json:"of"`

	created string
}

// countUnknown calls other for a line of an unknown kind.
func countUnknown(kind string, other func(string)) (unknown bool) {
	if _, _, ok := kindIn(kind); ok {
		return false
	}
	if kind == "" {
		kind = noKind
	}
	other(kind[:min(len(kind), maxWord)])
	return true
}

func readJSON(r io.Reader, each func(Line) error, other func(string)) (lines int, err error) {
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
		if countUnknown(v.Kind, other) {
			continue
		}
		v.created = strings.Trim(string(v.Created), `"`)
		if err := handle(&v, at, each); err != nil {
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

// columns of a CSV statement, in the order in which readCSV looks for them; those after
// the required ones may be missing.
var columns = []string{"id", "kind", "reference", "amount", "currency", "created", "of"}

const needed = 6

func readCSV(r io.Reader, each func(Line) error, other func(string)) (lines int, err error) {
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
		if place[i] < 0 && i < needed {
			return 0, &StatementError{1, "has no column " + name + "; the columns are " + strings.Join(columns[:needed], ", ")}
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
		f := func(i int) string {
			if place[i] < 0 {
				return ""
			}
			return strings.TrimSpace(fields[place[i]])
		}
		v := raw{ID: f(0), Kind: f(1), Reference: f(2), Amount: json.Number(f(3)), Currency: f(4), created: f(5), Of: f(6)}
		if countUnknown(v.Kind, other) {
			continue
		}
		if err := handle(&v, at, each); err != nil {
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

// bounded fails if a line is too long, because of a missing new line or an unclosed
// quote: all of it would be read into memory.
type bounded struct {
	in io.Reader
	// since is how much was read since the last whole line.
	since int
}

// readAhead is the buffer of csv.Reader: that much of what it reads may belong to the
// next line.
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

func handle(v *raw, at int, each func(Line) error) (err error) {
	wrong := func(format string, args ...any) error { return &StatementError{at, fmt.Sprintf(format, args...)} }
	kind, failed, _ := kindIn(v.Kind)
	l := Line{ID: v.ID, Kind: kind, Failed: failed, Reference: v.Reference, Currency: strings.ToLower(v.Currency), Entry: v.ID, Of: v.Of}
	switch {
	case l.ID == "" || len(l.ID) > maxText:
		return wrong("id must have 1 to %d bytes", maxText)
	case len(l.Reference) > maxText || len(l.Of) > maxText:
		return wrong("reference and of must have at most %d bytes", maxText)
	case len(l.Currency) != len("usd"):
		return wrong("currency must be an ISO 4217 code, is %.40q", v.Currency)
	}
	amount := v.Amount.String()
	if l.Amount, err = strconv.ParseInt(amount, 10, 64); err != nil || l.Amount <= 0 || l.Amount > payment.MaxAmount {
		return wrong("amount must be whole minor units from 1 to %d, is %.40q", int64(payment.MaxAmount), amount)
	}
	if seconds, err := strconv.ParseInt(v.created, 10, 64); err == nil {
		l.At = time.Unix(seconds, 0)
	} else if l.At, err = time.Parse(time.RFC3339, v.created); err != nil {
		return wrong("created must be an RFC 3339 time or seconds since 1970, is %.40q", v.created)
	}
	if l.At, err = inYears(l.At.UTC(), v.created); err != nil {
		return wrong("%v", err)
	}
	l.Settled, l.Gross = l.Currency, l.Amount
	return each(l)
}
