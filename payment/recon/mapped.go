package recon

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// Formats of numbers and times.
const (
	unitMajor     = "major"
	unitMinor     = "minor"
	formatRFC3339 = "rfc3339"
	formatUnix    = "unix"
)

// Read is [Read] for a statement in m's format. It skips lines of a kind that m does
// not have, and those whose money moved the other way than their kind's does, and calls
// other for each, with the provider's term for it.
func (m *Mapping) Read(r io.Reader, each func(Line) error, other func(kind string)) (lines int, err error) {
	limit := &bounded{in: r}
	in := csv.NewReader(limit)
	in.ReuseRecord = true
	in.Comma, _ = utf8.DecodeRuneInString(m.Delimiter)
	if m.Header != "" || m.Rows != "" {
		in.FieldsPerRecord = -1 // lines of several sorts
	}
	s := sheet{m: m}
	for at := 1; ; {
		limit.since = 0
		fields, err := in.Read()
		switch {
		case errors.Is(err, io.EOF) && s.at == nil:
			return lines, &StatementError{at, "has no line with the names of its columns" + m.beginning()}
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return lines, csvError(err, at+1, "cannot be read")
		}
		at, _ = in.FieldPos(0)
		first := strings.TrimPrefix(fields[0], "\ufeff")
		switch {
		case s.at == nil && (m.Header == "" || first == m.Header):
			if err := s.head(fields); err != nil {
				return lines, &StatementError{at, err.Error()}
			}
			continue
		case s.at == nil, m.Header != "" && first == m.Header, m.Rows != "" && first != m.Rows:
			continue
		}
		s.fields = fields
		l, word, err := s.line()
		switch {
		case err != nil:
			return lines, &StatementError{at, err.Error()}
		case word != "":
			other(word)
			continue
		case l.ID == "":
			continue
		}
		if err := each(l); err != nil {
			return lines, err
		}
		lines++
	}
}

func (m *Mapping) beginning() string {
	if m.Header == "" {
		return ""
	}
	return fmt.Sprintf(", which the mapping says begins with %q", m.Header)
}

// sheet is a statement whose columns are known, at one line.
type sheet struct {
	m      *Mapping
	at     map[string]int
	fields []string
}

// head finds the columns. Each required field needs one of its columns.
func (s *sheet) head(fields []string) error {
	s.at = make(map[string]int, len(fields))
	for i, name := range fields {
		name = fold(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := s.at[name]; !twice {
			s.at[name] = i
		}
	}
	c := &s.m.Columns
	for _, need := range []Names{c.Kind, c.Created, c.Zone, c.Amount.Value, c.Amount.Credit, c.Amount.Debit, c.Amount.Currency, c.Amount.Side} {
		if len(need) > 0 && !slices.ContainsFunc(need, s.has) {
			return fmt.Errorf("has no column %s, which the mapping needs", strings.Join(need, " or "))
		}
	}
	return nil
}

func fold(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

func (s *sheet) has(name string) bool { _, ok := s.at[fold(name)]; return ok }

// get returns the value of the first column of names that is not empty.
func (s *sheet) get(names Names) string {
	for _, name := range names {
		if i, ok := s.at[fold(name)]; ok && i < len(s.fields) {
			if v := strings.TrimSpace(s.fields[i]); v != "" {
				return v
			}
		}
	}
	return ""
}

// line reads a line. It has no ID if nothing follows from it, and word is its kind if
// that is unknown.
func (s *sheet) line() (l Line, word string, err error) {
	c := &s.m.Columns
	word = s.get(c.Kind)
	k, known := s.m.Kinds[word]
	switch {
	case !known && word == "":
		return l, noKind, nil
	case !known:
		return l, short(word), nil
	case k.Kind == skipped:
		return l, "", nil
	}
	l.Kind, l.Failed, _ = kindIn(k.Kind)
	l.Entry = s.get(c.Line)
	l.ID = s.get(append(slices.Clip(k.ID), c.ID...))
	if l.ID == "" {
		l.ID = l.Entry
	}
	if l.Entry == "" {
		l.Entry = l.ID
	}
	if l.Entry == l.ID {
		l.Entry += k.Suffix
	}
	l.ID += k.Suffix
	l.Of, l.Reference = s.get(append(slices.Clip(k.Of), c.Of...)), s.get(append(slices.Clip(k.Reference), c.Reference...))
	if s.m.Marked != "" {
		l.Reference, _, _ = strings.Cut(l.Reference, s.m.Marked)
	}
	for _, text := range []string{l.ID, l.Entry, l.Of, l.Reference} {
		if len(text) > maxText {
			return l, "", fmt.Errorf("an id must have at most %d bytes", maxText)
		}
	}
	if l.ID == "" {
		return l, "", fmt.Errorf("has no id; the mapping looks for it in %s", strings.Join(append(append(slices.Clip(k.ID), c.ID...), c.Line...), ", "))
	}
	if err := s.amounts(&l); err != nil {
		if wrong, ok := errors.AsType[wrongWayError](err); ok {
			return l, string(wrong), nil
		}
		return l, "", err
	}
	l.At, err = s.time()
	return l, "", err
}

// noKind stands for a kind that is empty.
const noKind = "(none)"

// maxWord bounds the name of a kind that is not known, in bytes.
const maxWord = 64

func short(word string) string { return word[:min(len(word), maxWord)] }

// wrongWayError is about a line whose money moved the other way than that of its kind
// does. Its text is the term that the line is counted under.
type wrongWayError string

func (e wrongWayError) Error() string { return string(e) }

// amounts reads what moved. A line that moved nothing loses its ID. The settled amount,
// if there is one, decides the direction: some providers state the payer's amount
// without a sign.
func (s *sheet) amounts(l *Line) error {
	c := &s.m.Columns
	amount, currency, err := s.money(&c.Amount)
	if err != nil {
		return err
	}
	settled, in := amount, currency
	for _, other := range []*Money{&c.Settled, &c.Net} {
		if other.given() {
			if settled, in, err = s.money(other); err != nil {
				return err
			}
		}
	}
	if in == "" {
		settled, in = amount, currency
	}
	if in == "" {
		return errors.New("has no amount")
	}
	if l.Fee, err = s.fees(in); err != nil {
		return err
	}
	if c.Net.given() {
		settled += l.Fee
	}
	if amount == 0 && !asked(l.Kind) {
		amount, currency = settled, in // it was never a payer's money
	}
	if amount < 0 != (settled < 0) && settled != 0 {
		amount = -amount
	}
	way := int64(kinds[l.Kind])
	if l.Failed {
		way = -way
	}
	switch {
	case amount == 0 && l.Fee == 0 && !asked(l.Kind):
		l.ID = ""
		return nil
	case amount == 0:
		return fmt.Errorf("a %s without an amount", l.Kind)
	case amount*way < 0 && l.Kind == psp.KindFee:
		l.Kind, way = psp.KindFeeRefund, -way
	case amount*way < 0 && l.Kind == psp.KindPayout:
		l.Kind, way = psp.KindTopUp, -way // from our bank
	case amount*way < 0:
		return wrongWayError(fmt.Sprintf("%s (money %s)", short(s.get(c.Kind)), wentOr(amount)))
	}
	l.Amount, l.Currency, l.Gross, l.Settled = amount*way, currency, settled*way, in
	if l.Amount > payment.MaxAmount || l.Gross > payment.MaxAmount {
		return fmt.Errorf("amount must be at most %d minor units", int64(payment.MaxAmount))
	}
	return nil
}

// fees sums the provider's fees.
func (s *sheet) fees(currency string) (sum int64, err error) {
	for _, name := range s.m.Columns.Fees {
		one, err := s.number(s.get(Names{name}), currency)
		if err != nil {
			return 0, err
		}
		if back := s.get(s.m.Columns.FeesSide); s.m.Columns.FeesNegative || back != "" && back == s.m.Columns.FeesCredits {
			one = -one
		}
		if sum += one; sum > payment.MaxAmount || sum < -payment.MaxAmount {
			return 0, fmt.Errorf("fees must be at most %d minor units", int64(payment.MaxAmount))
		}
	}
	return sum, nil
}

func wentOr(amount int64) string {
	if amount < 0 {
		return "went"
	}
	return "came"
}

// money reads an amount, above 0 if it came in. Without a currency there is none.
func (s *sheet) money(m *Money) (amount int64, currency string, err error) {
	value, credit, debit := s.get(m.Value), s.get(m.Credit), s.get(m.Debit)
	if value+credit+debit == "" {
		return 0, "", nil
	}
	if currency = strings.ToLower(s.get(m.Currency)); !payment.KnownCurrency(currency) {
		return 0, "", fmt.Errorf("currency must be an ISO 4217 code, is %.40q", currency)
	}
	if value != "" {
		if amount, err = s.number(value, currency); err == nil && len(m.Side) > 0 && s.get(m.Side) == m.Debits {
			amount = -amount
		}
		return amount, currency, err
	}
	plus, err := s.number(credit, currency)
	if err != nil {
		return 0, "", err
	}
	minus, err := s.number(debit, currency)
	return plus - minus, currency, err
}

// number reads an amount as minor units of currency; an empty one is 0.
func (s *sheet) number(text, currency string) (int64, error) {
	n := s.m.Numbers
	bad := func() (int64, error) {
		return 0, fmt.Errorf("amount must be a number of %s units of %s, is %.40q", n.Unit, currency, text)
	}
	digits := text
	if n.Group != "" {
		digits = strings.ReplaceAll(digits, n.Group, "")
	}
	negative := strings.HasPrefix(digits, "-")
	digits = strings.TrimPrefix(strings.TrimPrefix(digits, "-"), "+")
	if text == "" {
		return 0, nil
	}
	whole, fraction, _ := strings.Cut(digits, n.Decimal)
	places := 0
	if n.Unit == unitMajor {
		places = psp.MinorDigits(currency)
	}
	for len(fraction) > places && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1] // 5.00 yen
	}
	if whole == "" || len(fraction) > places {
		return bad()
	}
	whole += fraction + strings.Repeat("0", places-len(fraction))
	v, err := strconv.ParseUint(whole, 10, 62)
	if err != nil {
		return bad()
	}
	if negative {
		return -int64(v), nil
	}
	return int64(v), nil
}

func (s *sheet) time() (at time.Time, err error) {
	text := s.get(s.m.Columns.Created)
	zone := s.m.zone
	if name := s.get(s.m.Columns.Zone); name != "" {
		var ok bool
		if zone, ok = s.m.zones[name]; !ok {
			if zone, err = zoneOf(name); err != nil {
				return at, fmt.Errorf("%w; or map it in time.zones", err)
			}
		}
	}
	switch f := s.m.Time.Format; f {
	case formatRFC3339:
		at, err = time.Parse(time.RFC3339, text)
	case formatUnix:
		var seconds int64
		seconds, err = strconv.ParseInt(text, 10, 64)
		at = time.Unix(seconds, 0)
	default:
		at, err = time.ParseInLocation(f, text, zone)
	}
	if err != nil {
		return at, fmt.Errorf("created must be a time as %s, is %.40q", s.m.Time.Format, text)
	}
	return inYears(at.UTC(), text)
}

func inYears(at time.Time, text string) (time.Time, error) {
	if y := at.Year(); y < 1970 || y > 2200 { // nanoseconds in 64 bits cannot count further
		return at, fmt.Errorf("created must be in the years 1970 to 2200, is %.40q", text)
	}
	return at, nil
}
