package recon

import (
	"cmp"
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

// Read is [Read] for a statement in m's format. It skips lines of a kind that m does not have, and
// those with money that moved the other way than their kind's, and calls other for each, with the
// provider's term for it.
func (m *Mapping) Read(r io.Reader, each func(Line) error, other func(kind string)) (lines int, err error) {
	return m.read(r, each, other, refuse)
}

// read is Read. It calls bad for each line that cannot be read, and continues unless that
// fails.
func (m *Mapping) read(r io.Reader, each func(Line) error, other func(kind string), bad func(*StatementError) error) (lines int, err error) {
	text, err := textOf(r)
	if err != nil {
		return 0, err
	}
	limit := &bounded{in: text}
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
			if err = csvError(err, &at, s.at != nil, bad); err != nil {
				return lines, err
			}
			continue
		}
		at, _ = in.FieldPos(0)
		first := fields[0]
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
		case errors.As(err, new(zoneError)):
			return lines, &StatementError{at, err.Error()}
		case err != nil:
			if err := bad(&StatementError{at, err.Error()}); err != nil {
				return lines, err
			}
			continue
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
	return fmt.Sprintf(", which begins with %q by the mapping", m.Header)
}

// sheet is a statement with its columns resolved, at one line.
type sheet struct {
	m      *Mapping
	at     map[string]int
	fields []string
}

// head finds the columns. Each required field needs one of its columns.
func (s *sheet) head(fields []string) error {
	s.at = make(map[string]int, len(fields))
	for i, name := range fields {
		name = fold(name)
		if _, twice := s.at[name]; !twice {
			s.at[name] = i
		}
	}
	c := &s.m.Columns
	if !slices.ContainsFunc(c.CreatedUTC, s.has) && s.m.zone == nil && slices.ContainsFunc(c.Created, s.has) {
		return fmt.Errorf("has no column %s, so its times are in a zone that it does not name: give it with --timezone, as in Europe/Berlin", strings.Join(c.CreatedUTC, " or "))
	}
	for _, need := range []Names{c.Kind, slices.Concat(c.CreatedUTC, c.Created), c.Zone, c.Amount.Value, c.Amount.Credit, c.Amount.Debit, c.Amount.Currency, c.Amount.Side} {
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
	k, found := s.m.Kinds[word]
	switch {
	case !found && word == "":
		return l, noKind, nil
	case !found:
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
	if l.Entry == "" || slices.Equal(c.Line, c.ID) {
		// The reference of a movement is no line's own: a refund and its return share it.
		l.Entry = cmp.Or(l.Entry, l.ID) + "/" + short(word)
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

// noKind is the name of an empty kind.
const noKind = "(none)"

// maxWord bounds the name of an unknown kind, in bytes.
const maxWord = 64

func short(word string) string { return word[:min(len(word), maxWord)] }

// wrongWayError is about a line with money that moved the other way than its kind's. Its text is
// the term that the line is counted under.
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
		if other.isSet() {
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
	if c.Net.isSet() {
		settled += l.Fee
	}
	if amount == 0 && !requestable(l.Kind) {
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
	case amount == 0 && l.Fee == 0 && !requestable(l.Kind):
		l.ID = ""
		return nil
	case amount == 0:
		return fmt.Errorf("a %s without an amount", l.Kind)
	case amount*way < 0 && opposite[l.Kind] != "":
		l.Kind, way = opposite[l.Kind], -way
	case amount*way < 0:
		return wrongWayError(fmt.Sprintf("%s (money %s)", short(s.get(c.Kind)), wentOr(amount)))
	}
	l.Amount, l.Currency, l.Gross, l.Settled = amount*way, currency, settled*way, in
	if most := mostOf(l.Kind); l.Amount > most || l.Gross > maxSum {
		return fmt.Errorf("amount must be at most %d minor units", most)
	}
	return nil
}

// opposite are the kinds of lines with money that moved the other way, where that is certain.
var opposite = map[psp.Kind]psp.Kind{
	psp.KindFee: psp.KindFeeRefund, psp.KindPayout: psp.KindTopUp, // from our bank
	psp.KindDispute: psp.KindDisputeReversal, psp.KindDisputeReversal: psp.KindDispute,
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
		if sum += one; sum > maxSum || sum < -maxSum {
			return 0, fmt.Errorf("fees must be at most %d minor units", int64(maxSum))
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

// number reads an amount as minor units of currency; an empty one is 0. It reads a whole
// part or a fraction that is missing, a sign in front or behind, parentheses for amounts
// below 0, and separators between groups of digits. What two readers could take for two
// amounts, as 1,234 where the mapping does not say what the comma is, it refuses.
func (s *sheet) number(text, currency string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n := s.m.Numbers
	bad := func(why string) (int64, error) {
		return 0, fmt.Errorf("amount must be a number of %s units of %s, is %.40q%s", n.Unit, currency, text, why)
	}
	digits, negative, ok := unsigned(text)
	whole, fraction, point := strings.Cut(digits, n.Decimal)
	groups, separator := n.groups(whole)
	if !ok || len(whole)+len(fraction) == 0 || strings.Trim(fraction, "0123456789") != "" || len(groups) == 0 {
		return bad("")
	}
	guessed := n.Group == "" && (separator == "," || separator == ".")
	if guessed && len(groups) == 2 && !point {
		return bad("; set numbers.group of the mapping to decide whether " + separator + " separates thousands")
	}
	places := 0
	if n.Unit == unitMajor {
		places = psp.MinorDigits(currency)
	}
	if len(fraction) == 3 && places < 3 && n.Group == "" && len(groups) == 1 && len(whole) <= 3 && strings.Trim(whole, "0") != "" {
		return bad("; set numbers.group of the mapping to decide whether " + n.Decimal + " separates thousands")
	}
	for len(fraction) > places && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1] // 5.00 yen
	}
	if len(fraction) > places {
		return bad("")
	}
	v, err := strconv.ParseUint("0"+strings.Join(groups, "")+fraction+strings.Repeat("0", places-len(fraction)), 10, 62)
	if err != nil {
		return bad("")
	}
	if negative {
		return -int64(v), nil
	}
	return int64(v), nil
}

// unsigned takes the one sign from a number: in front, behind, or as parentheses. ok is
// false if there are several.
func unsigned(text string) (digits string, negative, ok bool) {
	const minus = "-\u2212\u2013"
	found := 0
	if strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")") && len(text) > 1 {
		text, negative, found = strings.TrimSpace(text[1:len(text)-1]), true, 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if r == '+' || strings.ContainsRune(minus, r) && size > 0 {
		text, negative = strings.TrimSpace(text[size:]), r != '+'
		found++
	}
	r, size = utf8.DecodeLastRuneInString(text)
	if r == '+' || strings.ContainsRune(minus, r) && size > 0 {
		text, negative = strings.TrimSpace(text[:len(text)-size]), r != '+'
		found++
	}
	return text, negative, found <= 1
}

// groups splits a whole part at one separator: that of the mapping, a space, an apostrophe,
// or the mark that is not its decimal one. The last group has three digits, those between
// two or three, the first as many or fewer. It returns nil for what is no whole number.
func (n *Numbers) groups(whole string) (groups []string, separator string) {
	separators := []string{" ", "\u00a0", "\u202f", "\u2009", "'", "\u2019"}
	if n.Group != "" {
		separators = append(separators, n.Group)
	} else {
		separators = append(separators, ",", ".")
	}
	groups = []string{whole}
	for _, separator = range separators {
		if separator != n.Decimal && strings.Contains(whole, separator) {
			groups = strings.Split(whole, separator)
			break
		}
		separator = ""
	}
	last := len(groups) - 1
	for i, g := range groups {
		switch {
		case strings.Trim(g, "0123456789") != "":
			return nil, ""
		case last == 0:
		case g == "", len(g) > 3, i == last && len(g) != 3, i > 0 && i < last && (len(g) < 2 || len(g) != len(groups[1])):
			return nil, ""
		}
	}
	return groups, separator
}

// zoneError is about a time zone, which is that of all lines.
type zoneError string

func (e zoneError) Error() string { return string(e) }

func (s *sheet) time() (at time.Time, err error) {
	c := &s.m.Columns
	text, zones := s.get(c.CreatedUTC), []*time.Location{time.UTC}
	if text == "" {
		text, zones = s.get(c.Created), []*time.Location{s.m.zone}
		if name := s.get(c.Zone); name != "" {
			if zones, err = s.m.named(name); err != nil {
				return at, err
			}
			defer func() { at, err = s.m.agree(name, text, zones, at, err) }()
		} else if s.m.zone == nil {
			return at, errors.New("its time is in a zone that the line does not name: give it with --timezone")
		}
	}
	return s.m.timeIn(text, zones[0])
}

// timeIn reads a time of a zone.
func (m *Mapping) timeIn(text string, zone *time.Location) (at time.Time, err error) {
	switch f := m.Time.Format; f {
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
		return at, fmt.Errorf("created must be a time as %s, is %.40q", m.Time.Format, text)
	}
	return inYears(at.UTC(), text)
}

// named returns the zones that a name may stand for.
func (m *Mapping) named(name string) ([]*time.Location, error) {
	if zones := m.zones[name]; len(zones) > 0 {
		return zones, nil
	}
	zone, err := zoneOf(name)
	if err != nil && m.set != nil {
		return []*time.Location{m.set}, nil
	}
	if err != nil {
		return nil, zoneError(err.Error() + "; give the account's with --timezone, or map it in time.zones")
	}
	return []*time.Location{zone}, nil
}

// agree decides between the zones that name may stand for: where they are at different times
// then, the operator's counts, if it is one of them or has that name itself.
func (m *Mapping) agree(name, text string, zones []*time.Location, at time.Time, err error) (time.Time, error) {
	var names []string
	differ := false
	for _, zone := range zones {
		other, _ := m.timeIn(text, zone)
		differ = differ || !other.Equal(at)
		names = append(names, zone.String())
	}
	if err != nil || !differ {
		return at, err
	}
	may := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	if m.set == nil {
		return at, zoneError(fmt.Sprintf("the time zone %s may be %s: give the account's with --timezone", name, may))
	}
	own, err := m.timeIn(text, m.set)
	if called, _ := own.In(m.set).Zone(); err == nil && called != name && !slices.Contains(names, m.set.String()) {
		err = zoneError(fmt.Sprintf("the time zone %s may be %s, and is none of %s: give the account's with --timezone", name, may, m.set))
	}
	return own, err
}

func inYears(at time.Time, text string) (time.Time, error) {
	if y := at.Year(); y < 1970 || y > 2200 { // nanoseconds in 64 bits cannot count further
		return at, fmt.Errorf("created must be in the years 1970 to 2200, is %.40q", text)
	}
	return at, nil
}
