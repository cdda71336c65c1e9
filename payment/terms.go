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

// terms are the members of a charge beside its amount, in the caller's own spelling:
// nil if absent.
type terms struct {
	offSession, customer, setupFutureUsage, statementSuffix, returnURL []byte
	account, onBehalfOf, transferData, applicationFee                  []byte
	captureMethod                                                      []byte
}

// setTerms stores a member that few charges have; ok is false for others.
func (in *Intent) setTerms(name string, raw []byte) (ok bool, err error) {
	t := &in.terms
	switch name {
	case "off_session":
		t.offSession = raw
		if s := string(raw); s != "true" && s != "false" {
			err = invalid(name, "must be true or false: whether the payer is away, and cannot authenticate")
		}
	case "customer":
		t.customer = raw
		err = identifier(name, "", raw)
	case "setup_future_usage":
		t.setupFutureUsage = raw
		if s, _ := text(raw); s != "on_session" && s != "off_session" {
			err = invalid(name, "must be on_session or off_session")
		}
	case "statement_descriptor_suffix":
		t.statementSuffix = raw
		if err = limited(name, raw, MaxStatementSuffix); err == nil && string(raw) == `""` {
			err = invalid(name, "must not be empty; leave it out instead")
		}
	case "return_url":
		t.returnURL = raw
		err = returnURL(raw)
	case "account":
		t.account = raw
		err = identifier(name, psp.AccountPrefix, raw)
	case "on_behalf_of":
		t.onBehalfOf = raw
		err = identifier(name, psp.AccountPrefix, raw)
	case "transfer_data":
		t.transferData = raw
		_, _, err = transferData(raw)
	case "capture_method":
		t.captureMethod = raw
		if s, _ := text(raw); s != "automatic" && s != captureManual {
			err = invalid(name, "must be automatic or manual: whether the money is only held, until it is captured")
		}
	case "application_fee_amount":
		t.applicationFee = raw
		_, err = amountOf(name, raw)
	default:
		return false, nil
	}
	return true, err
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

func returnURL(raw []byte) error {
	s, ok := text(raw)
	u, err := url.Parse(s)
	if !ok || err != nil || len(s) > MaxReturnURL || u.Scheme == "" || u.Host == "" && u.Opaque == "" && u.Path == "" {
		return invalid("return_url", "must be an absolute URL of at most %d bytes", MaxReturnURL)
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
	if t.returnURL == nil && t.transferData == nil && t.applicationFee == nil {
		return nil
	}
	var part int64
	if t.transferData != nil {
		_, part, _ = transferData(t.transferData)
	}
	switch {
	case t.returnURL != nil && string(t.offSession) != "false":
		return invalid("return_url", "needs off_session to be false: who is away is sent nowhere")
	case t.transferData != nil && part > in.Amount:
		return invalid("transfer_data.amount", "must be at most the charge's amount")
	case t.transferData != nil && part > 0 && t.applicationFee != nil:
		return invalid("application_fee_amount", "cannot be sent together with transfer_data.amount")
	case t.applicationFee != nil && t.transferData == nil && t.account == nil:
		return invalid("application_fee_amount", "needs account or transfer_data")
	}
	if fee, _ := strconv.ParseInt(string(t.applicationFee), 10, 64); fee > in.Amount {
		return invalid("application_fee_amount", "must be at most the charge's amount")
	}
	return nil
}

// Account is the account at the provider that a charge is made in; "" is ours, as of
// everything that is no charge.
func (in *Intent) Account() string { return spelled(in.terms.account) }

// agreement returns what the provider receives beside the amount; nil for nothing.
func (in *Intent) agreement() *psp.Terms {
	t := &in.terms
	if t.sent() == 0 && in.orderID == nil && in.metadata == nil {
		return nil
	}
	p := &psp.Terms{
		Customer: spelled(t.customer), OnSession: string(t.offSession) == "false", SetupFutureUsage: spelled(t.setupFutureUsage),
		StatementSuffix: spelled(t.statementSuffix), ReturnURL: spelled(t.returnURL),
		Manual: in.Holds(), Account: spelled(t.account), OnBehalfOf: spelled(t.onBehalfOf), OrderID: in.orderID, Metadata: in.metadata,
	}
	if t.transferData != nil {
		p.TransferTo, p.TransferAmount, _ = transferData(t.transferData)
	}
	if len(t.applicationFee) > 0 { // otherwise it would allocate an error
		p.ApplicationFee, _ = strconv.ParseInt(string(t.applicationFee), 10, 64)
	}
	return p
}

// sent is the length of t as rendered.
func (t *terms) sent() int {
	return len(t.offSession) + len(t.customer) + len(t.setupFutureUsage) + len(t.statementSuffix) + len(t.returnURL) +
		len(t.account) + len(t.onBehalfOf) + len(t.transferData) + len(t.applicationFee) + len(t.captureMethod)
}

// appendTerms renders t as it was sent.
func appendTerms(b []byte, t *terms) []byte {
	b = appendSent(b, "off_session", t.offSession)
	b = appendSent(b, "capture_method", t.captureMethod)
	b = appendSent(b, "customer", t.customer)
	b = appendSent(b, "setup_future_usage", t.setupFutureUsage)
	b = appendSent(b, "statement_descriptor_suffix", t.statementSuffix)
	b = appendSent(b, "return_url", t.returnURL)
	b = appendSent(b, "account", t.account)
	b = appendSent(b, "on_behalf_of", t.onBehalfOf)
	b = appendSent(b, "transfer_data", t.transferData)
	return appendSent(b, "application_fee_amount", t.applicationFee)
}
