package recon

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/homeward-io/homeward/payment/psp"
)

// Mapping describes how a provider writes its statement as CSV. It is read from YAML, of
// which mapping/stripe.yaml is the documented example; Stripe's own statement is read by
// it, and no other way. Safe for concurrent use.
type Mapping struct {
	// Name is for people.
	Name string `yaml:"name"`
	// Delimiter separates columns; "" is a comma.
	Delimiter string `yaml:"delimiter"`
	// Header is how the line with the names of columns begins, in its first column; "": it
	// is the first line. Lines before it are skipped.
	Header string `yaml:"header"`
	// Rows is how the lines that count begin, in their first column; "": all after the
	// header do.
	Rows string `yaml:"rows"`
	// Columns name the columns of the fields. Of several names, the first one counts
	// that is in the statement and not empty in a line.
	Columns Columns `yaml:"columns"`
	// Numbers and Time are the formats of amounts and times.
	Numbers Numbers `yaml:"numbers"`
	Time    Times   `yaml:"time"`
	// Lag is how much later than booked a movement may be stated.
	Lag time.Duration `yaml:"lag"`
	// Marked is the mark that the adapter puts behind our references; it is cut off,
	// with what follows it. "": none.
	Marked string `yaml:"marked"`
	// Kinds maps the provider's terms for kinds.
	Kinds map[string]KindOf `yaml:"kinds"`

	zone  *time.Location // of times without one; nil: not set
	set   *time.Location // by the operator
	zones map[string][]*time.Location
}

// Columns are names of columns.
type Columns struct {
	// Line is the statement's own id of a line; if it has none, that of the movement.
	Line Names `yaml:"line"`
	// ID is the provider's id of the movement, as its API and its notices have it.
	ID Names `yaml:"id"`
	// Of is the provider's id of the charge or transfer that a movement is about.
	Of Names `yaml:"of"`
	// Reference is our id, if the provider repeats it.
	Reference Names `yaml:"reference"`
	Kind      Names `yaml:"kind"`
	Created   Names `yaml:"created"`
	// CreatedUTC are the same in UTC, and count first. Then Time.Zone has no default: the
	// operator gives the zone of a statement that has Created alone.
	CreatedUTC Names `yaml:"created_utc"`
	// Zone names the time zone of Created in each line.
	Zone Names `yaml:"zone"`
	// Amount is the payer's amount, as the books have it.
	Amount Money `yaml:"amount"`
	// Settled is the same money in the settlement currency, before fees; Net after
	// them. One of them, or neither.
	Settled Money `yaml:"settled"`
	Net     Money `yaml:"net"`
	// Fees are all summed; they are in the currency of Settled, or of Amount.
	Fees Names `yaml:"fees"`
	// FeesNegative: a fee that the provider keeps is below zero. FeesSide is a column with
	// FeesCredits for fees that the provider returns, if they have no sign.
	FeesNegative bool   `yaml:"fees_negative"`
	FeesSide     Names  `yaml:"fees_side"`
	FeesCredits  string `yaml:"fees_credits"`
}

// Money names the columns of an amount: in one column with a sign, in one without a
// sign beside one with the side, or in one of two columns.
type Money struct {
	Value    Names `yaml:"value"`
	Credit   Names `yaml:"credit"`
	Debit    Names `yaml:"debit"`
	Currency Names `yaml:"currency"`
	Side     Names `yaml:"side"`
	// Debits is the value of Side for money that went out.
	Debits string `yaml:"debits"`
}

// isSet reports whether m names anything.
func (m *Money) isSet() bool { return len(m.Value)+len(m.Credit)+len(m.Debit) > 0 }

// Numbers is the format of amounts.
type Numbers struct {
	// Unit is "major" (12.50 for dollars, 1250 for yen) or "minor" (1250 for both). It
	// is required: a wrong guess is off by a factor of a hundred.
	Unit string `yaml:"unit"`
	// Decimal is the decimal separator, "." by default. Group separates groups of digits; without
	// it, what may be either separator is refused.
	Decimal string `yaml:"decimal"`
	Group   string `yaml:"group"`
}

// Times is the format of times.
type Times struct {
	// Format is rfc3339, unix, or how 2 January 2006, 15:04:05 is written.
	Format string `yaml:"format"`
	// Zone is the time zone of times without one: a name as Europe/Berlin; "" is UTC.
	Zone string `yaml:"zone"`
	// Zones are the values of Columns.Zone beside such names, as CEST. If a value names several
	// zones, the operator sets which, where it makes a difference.
	Zones map[string]Names `yaml:"zones"`
}

// KindOf is the meaning of a term for a kind: in YAML the kind alone, or an object.
type KindOf struct {
	// Kind is as in the column kind of [CSV]. "skip" is no movement.
	Kind string `yaml:"kind"`
	// ID, Of and Reference override the columns for this kind.
	ID        Names `yaml:"id"`
	Of        Names `yaml:"of"`
	Reference Names `yaml:"reference"`
	// Suffix follows the id if the adapter appends it: the statement repeats an id of
	// which the books have two.
	Suffix string `yaml:"suffix"`
}

// skipped are lines that nothing follows from.
const skipped = "skip"

// UnmarshalYAML implements yaml.Unmarshaler.
func (k *KindOf) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		k.Kind = n.Value
		return nil
	}
	type plain KindOf
	return strict(n, (*plain)(k))
}

// Names are the names of columns, the first of which counts: in YAML one or a list.
type Names []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *Names) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*c = nil
		if n.Value != "" {
			*c = Names{n.Value}
		}
		return nil
	}
	return n.Decode((*[]string)(c))
}

// strict decodes n and refuses members that to does not have: Node.Decode loses the
// option of its decoder.
func strict(n *yaml.Node, to any) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("line %d: %s", n.Line, inOneLine(err))
	}
	return nil
}

//go:embed mapping/*.yaml
var mappings embed.FS

// Mappings returns the names of the built-in mappings, each of which is a [Format].
func Mappings() (names []string) {
	all, err := mappings.ReadDir("mapping")
	if err != nil {
		panic("recon: the mappings that are built in cannot be read: " + err.Error())
	}
	for _, f := range all {
		names = append(names, strings.TrimSuffix(f.Name(), path.Ext(f.Name())))
	}
	return names
}

// MappingOf returns a built-in mapping by its name.
func MappingOf(name string) (*Mapping, error) {
	text, err := mappings.ReadFile("mapping/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("recon: there is no statement format %q; use csv, jsonl, %s, or describe it with a mapping", name, strings.Join(Mappings(), ", "))
	}
	return ReadMapping(bytes.NewReader(text))
}

// OpenMapping reads a mapping from a file.
func OpenMapping(name string) (*Mapping, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the mapping cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	m, err := ReadMapping(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// maxMapping bounds a mapping, in bytes.
const maxMapping = 1 << 20

// ReadMapping reads a mapping. Its error lists everything that is wrong with it, in one
// line.
func ReadMapping(r io.Reader) (*Mapping, error) {
	m := &Mapping{}
	d := yaml.NewDecoder(io.LimitReader(r, maxMapping))
	d.KnownFields(true)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("mapping: %s", inOneLine(err))
	}
	return m, m.validate()
}

func inOneLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n")
	return strings.Join(strings.Fields(notFound.ReplaceAllString(text, "there is no member $1")), " ")
}

// notFound matches the library's error about an unknown member, which names a Go type.
var notFound = regexp.MustCompile(`field (\S+) not found in type \S+`)

func (m *Mapping) validate() error {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if m.Delimiter == "" {
		m.Delimiter = ","
	}
	if r, n := utf8.DecodeRuneInString(m.Delimiter); n != len(m.Delimiter) || strings.ContainsRune("\"\r\n", r) || r == utf8.RuneError {
		bad("delimiter must be one character, as ; or \\t, is %q", m.Delimiter)
	}
	if m.Numbers.Decimal == "" {
		m.Numbers.Decimal = "."
	}
	switch n := m.Numbers; {
	case n.Unit != unitMajor && n.Unit != unitMinor:
		bad("numbers.unit must be major (12.50 dollars) or minor (1250 cents), is %q", n.Unit)
	case n.Decimal == n.Group || strings.ContainsAny(n.Decimal+n.Group, "0123456789+-"):
		bad("numbers.decimal %q and numbers.group %q must be two characters that are no digits and no signs", n.Decimal, n.Group)
	}
	for _, c := range []struct {
		name  string
		isSet bool
	}{{"kind", len(m.Columns.Kind) > 0}, {"created", len(m.Columns.Created)+len(m.Columns.CreatedUTC) > 0}, {"amount", m.Columns.Amount.isSet()}} {
		if !c.isSet {
			bad("columns.%s is missing", c.name)
		}
	}
	m.validateMoney(bad)
	m.validateTime(bad)
	m.validateKinds(bad)
	if len(wrong) > 0 {
		return errors.New("mapping: " + strings.Join(wrong, "; "))
	}
	return nil
}

func (m *Mapping) validateMoney(bad func(string, ...any)) {
	for _, c := range []struct {
		name string
		Money
	}{{"amount", m.Columns.Amount}, {"settled", m.Columns.Settled}, {"net", m.Columns.Net}} {
		switch one, two := len(c.Value) > 0, len(c.Credit) > 0 || len(c.Debit) > 0; {
		case !one && !two:
			continue
		case one && two:
			bad("columns.%s has both value and credit or debit; use value for one column, credit and debit for two", c.name)
		case two && (len(c.Credit) == 0 || len(c.Debit) == 0):
			bad("columns.%s needs both credit and debit", c.name)
		case (len(c.Side) > 0) != (c.Debits != ""):
			bad("columns.%s needs side, the column with the side, and debits, its value for money that went out", c.name)
		}
		if len(c.Currency) == 0 {
			bad("columns.%s.currency is missing", c.name)
		}
	}
	if (len(m.Columns.FeesSide) > 0) != (m.Columns.FeesCredits != "") {
		bad("columns needs both fees_side, the column with the side, and fees_credits, its value for fees that are returned")
	}
	if m.Columns.Settled.isSet() && m.Columns.Net.isSet() {
		bad("columns has both settled and net; give the one from which the other follows by the fees")
	}
}

func (m *Mapping) validateTime(bad func(string, ...any)) {
	if m.Lag < 0 {
		bad("lag must not be below 0, is %v", m.Lag)
	}
	switch f := m.Time.Format; f {
	case "":
		bad("time.format is missing: rfc3339, unix, or how 2 January 2006, 15:04:05 is written, as 2006-01-02 15:04:05")
	case formatRFC3339, formatUnix:
	default:
		at := time.Date(2021, 11, 23, 0, 0, 0, 0, time.UTC)
		if back, err := time.Parse(f, at.Format(f)); err != nil || !back.Equal(at) {
			bad("time.format %q does not write a whole date; write it as 2 January 2006, 15:04:05 is written, as 2006-01-02 15:04:05", f)
		}
	}
	var err error
	if m.Time.Zone != "" || len(m.Columns.CreatedUTC) == 0 {
		if m.zone, err = zoneOf(m.Time.Zone); err != nil {
			bad("time.zone: %v", err)
		}
	}
	m.zones = map[string][]*time.Location{}
	for _, name := range slices.Sorted(maps.Keys(m.Time.Zones)) {
		for _, one := range m.Time.Zones[name] {
			zone, err := zoneOf(one)
			if err != nil {
				bad("time.zones.%s: %v", name, err)
			}
			m.zones[name] = append(m.zones[name], zone)
		}
	}
}

// zoneOf finds a time zone by its name, or by its distance from UTC, as +02:00.
func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if at, err := time.Parse("-07:00", name); err == nil {
		_, offset := at.Zone()
		return time.FixedZone(name, offset), nil
	}
	if zone, err := time.LoadLocation(name); err == nil && name != "Local" {
		return zone, nil
	}
	return nil, fmt.Errorf("there is no time zone %q; write one as Europe/Berlin, UTC or +02:00", name)
}

func (m *Mapping) validateKinds(bad func(string, ...any)) {
	if len(m.Kinds) == 0 {
		bad("kinds is missing: what the words in columns.kind mean, as Settled: charge")
	}
	for _, word := range slices.Sorted(maps.Keys(m.Kinds)) {
		k := m.Kinds[word]
		if k.Kind == skipped {
			continue
		}
		if _, _, ok := kindIn(k.Kind); !ok {
			bad("kinds.%s: there is no kind %q; use %s or %s", word, k.Kind, kindNames, skipped)
		}
		if len(k.ID)+len(m.Columns.ID)+len(m.Columns.Line) == 0 {
			bad("kinds.%s: columns.id is missing, and it names no id of its own", word)
		}
	}
}

// In sets the operator's time zone: that of times that name none, and of names of zones that the
// mapping does not have, or has for several. It does not change times in UTC, or of a zone that the
// mapping has.
func (m *Mapping) In(zone *time.Location) *Mapping {
	in := *m
	in.zone, in.set = zone, zone
	return &in
}

// kinds are the kinds of lines, and whether their money came in or went out.
var kinds = map[psp.Kind]direction{
	psp.KindCharge: came, psp.KindTransfer: went, psp.KindRefund: went,
	psp.KindDispute: went, psp.KindDisputeReversal: came, psp.KindTransferReversal: came,
	psp.KindPayout: went, psp.KindPayoutReversal: came, psp.KindTopUp: came, psp.KindFee: went, psp.KindFeeRefund: came, psp.KindCaptureReversal: went,
}

type direction int64

const (
	came direction = 1
	went direction = -1
)

const kindNames = "charge, transfer, refund, or one of these with _failed, dispute, dispute_reversal, transfer_reversal, payout, payout_reversal, top_up, fee, fee_refund, capture_reversal"

// kindIn parses a kind as statements have it.
func kindIn(word string) (kind psp.Kind, failed, ok bool) {
	base, failed := strings.CutSuffix(strings.ToLower(word), "_failed")
	kind = psp.Kind(base)
	_, ok = kinds[kind]
	if failed {
		ok = requestable(kind)
	}
	return kind, failed, ok
}

// requestable reports whether kind is of movements that we request.
func requestable(kind psp.Kind) bool {
	return kind == psp.KindCharge || kind == psp.KindTransfer || kind == psp.KindRefund
}
