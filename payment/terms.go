package payment

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

// Limits of what a charge may say beside its amount.
const (
	// MaxReturnURL is the longest return_url, in bytes: what browsers and proxies pass.
	MaxReturnURL = 2048
	// MaxStatementSuffix is the longest statement_descriptor_suffix, in characters: what
	// fits a card statement with a prefix of none.
	MaxStatementSuffix = 22
)

// A term is a member of a charge beside its amount. The constants are in the order in which an
// object has them.
type term uint8

const (
	offSession term = iota
	captureMethod
	customer
	setupFutureUsage
	statementSuffix
	returnTo
	account
	onBehalfOf
	transferTo
	applicationFee
	allTerms
)

// terms holds what one charge says of each term, as its caller spelled it; nil where it says nothing.
type terms [allTerms][]byte

// termsOf is all that a term is: its name, what it may be, and what the provider receives for it.
var termsOf = [allTerms]struct {
	name  string
	check func(name string, raw []byte) error
	give  func(p *psp.Terms, raw []byte)
}{
	offSession: {"off_session", func(name string, raw []byte) error {
		if s := string(raw); s != "true" && s != "false" {
			return invalid(name, "must be true or false: whether the payer is away, and cannot authenticate")
		}
		return nil
	}, func(p *psp.Terms, raw []byte) { p.OnSession = present(raw) }},
	captureMethod: {"capture_method", func(name string, raw []byte) error {
		if s, _ := text(raw); s != "automatic" && s != captureManual {
			return invalid(name, "must be automatic or manual: whether the money is only held, until it is captured")
		}
		return nil
	}, func(p *psp.Terms, raw []byte) { p.Manual = manual(raw) }},
	customer: {"customer", func(name string, raw []byte) error {
		return identifier(name, "", raw)
	}, func(p *psp.Terms, raw []byte) { p.Customer = spelled(raw) }},
	setupFutureUsage: {"setup_future_usage", func(name string, raw []byte) error {
		if s, _ := text(raw); s != "on_session" && s != "off_session" {
			return invalid(name, "must be on_session or off_session")
		}
		return nil
	}, func(p *psp.Terms, raw []byte) { p.SetupFutureUsage = spelled(raw) }},
	statementSuffix: {"statement_descriptor_suffix", func(name string, raw []byte) error {
		if string(raw) == `""` {
			return invalid(name, "must not be empty; leave it out instead")
		}
		return limited(name, raw, MaxStatementSuffix)
	}, func(p *psp.Terms, raw []byte) { p.StatementSuffix = spelled(raw) }},
	returnTo: {"return_url", returnURL, func(p *psp.Terms, raw []byte) { p.ReturnURL = spelled(raw) }},
	account: {"account", func(name string, raw []byte) error {
		return identifier(name, psp.AccountPrefix, raw)
	}, func(p *psp.Terms, raw []byte) { p.Account = spelled(raw) }},
	onBehalfOf: {"on_behalf_of", func(name string, raw []byte) error {
		return identifier(name, psp.AccountPrefix, raw)
	}, func(p *psp.Terms, raw []byte) { p.OnBehalfOf = spelled(raw) }},
	transferTo: {"transfer_data", func(_ string, raw []byte) error {
		_, _, err := transferData(raw)
		return err
	}, func(p *psp.Terms, raw []byte) { p.TransferTo, p.TransferAmount, _ = transferData(raw) }},
	applicationFee: {"application_fee_amount", func(name string, raw []byte) error {
		_, err := amountOf(name, raw)
		return err
	}, func(p *psp.Terms, raw []byte) { p.ApplicationFee = fee(raw) }},
}

// setTerms stores a member that few charges have; ok is false for others.
func (in *Intent) setTerms(name string, raw []byte) (ok bool, err error) {
	for i := range termsOf {
		if termsOf[i].name == name {
			in.terms[i] = raw
			return true, termsOf[i].check(name, raw)
		}
	}
	return false, nil
}

// present reports whether off_session says that the payer is there.
func present(raw []byte) bool { return string(raw) == "false" }

// manual reports whether capture_method says that the money is only held.
func manual(raw []byte) bool { return string(raw) == `"`+captureManual+`"` }

// fee is the application_fee_amount, 0 for none.
func fee(raw []byte) int64 {
	n, _ := strconv.ParseInt(string(raw), 10, 64)
	return n
}

// identifier checks an identifier of the provider's.
func identifier(member, prefix string, raw []byte) error {
	s, ok := text(raw)
	rest, has := strings.CutPrefix(s, prefix)
	if !ok || !has || rest == "" || len(s) > MaxToken || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		if prefix != "" {
			return invalid(member, "must be an id that starts with %s and has at most %d characters", prefix, MaxToken)
		}
		return invalid(member, "must be the provider's id, of at most %d visible ASCII characters", MaxToken)
	}
	return nil
}

func returnURL(name string, raw []byte) error {
	s, ok := text(raw)
	u, err := url.Parse(s)
	if !ok || err != nil || len(s) > MaxReturnURL || u.Scheme == "" || u.Host == "" && u.Opaque == "" && u.Path == "" {
		return invalid(name, "must be an absolute URL of at most %d bytes", MaxReturnURL)
	}
	return nil
}

// transferData reads {"destination":"acct_…","amount":…}, whose amount may be absent.
func transferData(raw []byte) (destination string, amount int64, err error) {
	s := scanner{in: raw}
	if !s.accept('{') {
		return "", 0, invalid("transfer_data", "must be an object with a destination")
	}
	for first := true; !s.accept('}'); first = false {
		if !first && !s.accept(',') {
			return "", 0, notCanonical()
		}
		name, ok := s.str()
		if !ok || !s.accept(':') {
			return "", 0, notCanonical()
		}
		value, ok := s.value(2)
		if !ok {
			return "", 0, notCanonical()
		}
		switch string(name) {
		case `"destination"`:
			if err := identifier("transfer_data.destination", psp.AccountPrefix, value); err != nil {
				return "", 0, err
			}
			destination, _ = text(value)
		case `"amount"`:
			if amount, err = amountOf("transfer_data.amount", value); err != nil {
				return "", 0, err
			}
		default:
			return "", 0, unknownMember([]byte("transfer_data." + string(name[1:len(name)-1])))
		}
	}
	if destination == "" {
		return "", 0, invalid("transfer_data.destination", "is required")
	}
	return destination, amount, nil
}

// agreed checks rules between members.
func (in *Intent) agreed() error {
	t := &in.terms
	if t[returnTo] == nil && t[transferTo] == nil && t[applicationFee] == nil {
		return nil
	}
	var part int64
	if t[transferTo] != nil {
		_, part, _ = transferData(t[transferTo])
	}
	switch {
	case t[returnTo] != nil && !present(t[offSession]):
		return invalid("return_url", "needs off_session to be false: who is away is sent nowhere")
	case t[transferTo] != nil && part > in.Amount:
		return invalid("transfer_data.amount", "must be at most the charge's amount")
	case t[transferTo] != nil && part > 0 && t[applicationFee] != nil:
		return invalid("application_fee_amount", "cannot be sent together with transfer_data.amount")
	case t[applicationFee] != nil && t[transferTo] == nil && t[account] == nil:
		return invalid("application_fee_amount", "needs account or transfer_data")
	case t[applicationFee] != nil && fee(t[applicationFee]) > in.Amount: // of none it would allocate an error
		return invalid("application_fee_amount", "must be at most the charge's amount")
	}
	return nil
}

// Account is the account at the provider that a charge is made in; "" is ours, as of
// everything that is no charge.
func (in *Intent) Account() string { return spelled(in.terms[account]) }

// agreement returns what the provider receives beside the amount; nil for nothing.
func (in *Intent) agreement() *psp.Terms {
	if in.terms.sent() == 0 && in.orderID == nil && in.metadata == nil {
		return nil
	}
	p := &psp.Terms{OrderID: in.orderID, Metadata: in.metadata}
	for i, raw := range in.terms {
		if raw != nil {
			termsOf[i].give(p, raw)
		}
	}
	return p
}

// sent is the length of t as rendered.
func (t *terms) sent() (n int) {
	for _, raw := range t {
		n += len(raw)
	}
	return n
}

// appendTerms renders t as it was sent.
func appendTerms(b []byte, t *terms) []byte {
	for i, raw := range t {
		b = appendSent(b, termsOf[i].name, raw)
	}
	return b
}
