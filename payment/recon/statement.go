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
	// Entry is the statement's own id of the line; if it has none, ID, by a mapping with the provider's
	// term for the kind behind it.
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
	// maxSum bounds what a provider moves for many payments at once, in minor units: no JSON client
	// rounds it.
	maxSum = 1 << 53
)

// mostOf is the largest amount of a line of a kind.
func mostOf(kind psp.Kind) int64 {
	if byItself(kind) {
		return maxSum
	}
	return payment.MaxAmount
}

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
// The error is a [*StatementError] if the statement is at fault: a line that cannot be read
// ends it.
func Read(r io.Reader, f Format, each func(Line) error) (lines int, err error) {
	return read(r, f, each, func(string) {}, refuse)
}

// refuse ends the reading at a line that cannot be read.
func refuse(e *StatementError) error { return e }

// read is Read. It calls other for each line of an unknown kind, with its name, and bad for
// each line that cannot be read, and continues unless that fails.
func read(r io.Reader, f Format, each func(Line) error, other func(kind string), bad func(*StatementError) error) (lines int, err error) {
	if f != CSV && f != JSONLines {
		m, err := MappingOf(string(f))
		if err != nil {
			return 0, err
		}
		return m.read(r, each, other, bad)
	}
	text, err := textOf(r)
	switch {
	case err != nil:
		return 0, err
	case f == CSV:
		return readCSV(text, each, other, bad)
	default:
		return readJSON(text, each, other, bad)
	}
}

// textOf returns the text of a statement without its byte order mark. It refuses what is not
// text as statements are, by name.
func textOf(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, maxLine)
	head, err := in.Peek(maxLine)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("recon: read statement: %w", err)
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.IndexByte(head[:min(len(head), 4)], 0) >= 0 {
		return nil, &StatementError{1, "is in UTF-16; save it as UTF-8, as by iconv -f UTF-16 -t UTF-8"}
	}
	if mark := []byte("\ufeff"); bytes.HasPrefix(head, mark) {
		head = head[len(mark):]
		if _, err := in.Discard(len(mark)); err != nil {
			return nil, fmt.Errorf("recon: read statement: %w", err)
		}
	}
	first, _, lf := bytes.Cut(head, []byte("\n"))
	if before, behind, cr := bytes.Cut(first, []byte("\r")); !lf && cr && len(bytes.TrimSpace(behind)) > 0 {
		return nil, &StatementError{1, fmt.Sprintf("has lines that end with a carriage return alone, as behind %.40q; save it with line feeds", before)}
	}
	if first = bytes.ToLower(bytes.Trim(bytes.TrimSpace(first), `"`)); bytes.HasPrefix(first, []byte("sep=")) {
		return nil, &StatementError{1, fmt.Sprintf("is %.10q, which spreadsheets write and is no column; remove that line", first)}
	}
	return in, nil
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

func readJSON(r io.Reader, each func(Line) error, other func(string), bad func(*StatementError) error) (lines int, err error) {
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
			if err := bad(&StatementError{at, "is not a JSON object with these members: " + strings.TrimPrefix(err.Error(), "json: ")}); err != nil {
				return lines, err
			}
			continue
		}
		if countUnknown(v.Kind, other) {
			continue
		}
		v.created = strings.Trim(string(v.Created), `"`)
		l, wrong := lineOf(&v, at)
		if wrong != nil {
			if err := bad(wrong); err != nil {
				return lines, err
			}
			continue
		}
		if err := each(l); err != nil {
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

func readCSV(r io.Reader, each func(Line) error, other func(string), bad func(*StatementError) error) (lines int, err error) {
	limit := &bounded{in: r}
	in := csv.NewReader(limit)
	in.ReuseRecord = true
	at := 0
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return 0, &StatementError{1, "has no line with the names of its columns"}
	} else if err != nil {
		return 0, csvError(err, &at, false, bad)
	}
	place := make([]int, len(columns))
	for i, name := range columns {
		place[i] = slices.IndexFunc(head, func(s string) bool {
			return strings.EqualFold(strings.TrimSpace(s), name)
		})
		if place[i] < 0 && i < needed {
			return 0, &StatementError{1, "has no column " + name + "; the columns are " + strings.Join(columns[:needed], ", ")}
		}
	}
	for at = 1; ; {
		limit.since = 0
		fields, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			if err = csvError(err, &at, true, bad); err != nil {
				return lines, err
			}
			continue
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
		l, wrong := lineOf(&v, at)
		if wrong != nil {
			if err := bad(wrong); err != nil {
				return lines, err
			}
			continue
		}
		if err := each(l); err != nil {
			return lines, err
		}
		lines++
	}
}

// csvError calls bad for an error that is of one line alone, if that is no header, and returns
// any other. at is the last line that was read.
func csvError(err error, at *int, body bool, bad func(*StatementError) error) error {
	var parse *csv.ParseError
	switch {
	case errors.As(err, &parse):
		*at = parse.Line
		wrong := &StatementError{parse.Line, parse.Err.Error()}
		if body && parse.StartLine == parse.Line {
			return bad(wrong)
		}
		return wrong // a quote that is not closed has taken other lines with it
	case errors.Is(err, errLongLine):
		return &StatementError{*at + 1, err.Error()}
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

func lineOf(v *raw, at int) (l Line, _ *StatementError) {
	var err error
	wrong := func(format string, args ...any) (Line, *StatementError) {
		return l, &StatementError{at, fmt.Sprintf(format, args...)}
	}
	kind, failed, _ := kindIn(v.Kind)
	l = Line{ID: v.ID, Kind: kind, Failed: failed, Reference: v.Reference, Currency: strings.ToLower(v.Currency), Entry: v.ID, Of: v.Of}
	switch {
	case l.ID == "" || len(l.ID) > maxText:
		return wrong("id must have 1 to %d bytes", maxText)
	case len(l.Reference) > maxText || len(l.Of) > maxText:
		return wrong("reference and of must have at most %d bytes", maxText)
	case len(l.Currency) != len("usd"):
		return wrong("currency must be an ISO 4217 code, is %.40q", v.Currency)
	}
	amount := v.Amount.String()
	if l.Amount, err = strconv.ParseInt(amount, 10, 64); err != nil || l.Amount <= 0 || l.Amount > mostOf(kind) {
		return wrong("amount must be whole minor units from 1 to %d, is %.40q", mostOf(kind), amount)
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
	return l, nil
}
