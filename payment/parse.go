package payment

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// maxMemberName is how many bytes of an unknown member's name an error repeats.
const maxMemberName = 64

// Parse reads the request of op from canonical, which claim.Canonical made of the body,
// unstable members dropped. It is strict: unknown members are refused. The error is an
// *[InvalidError] for the first member at fault, in canonical order; missing members
// are reported last. The Intent keeps slices of canonical. Parse is safe for concurrent
// use.
//
// Parse also reads stored requests. Checks that apply to new ones alone are in
// [Intent.Screen].
func Parse(op Operation, canonical []byte) (Intent, error) {
	switch op {
	case Charge, Transfer, Refund, Compensation, Capture, Cancel:
	default:
		return Intent{}, invalid("", "unknown operation %q", string(op))
	}
	in := Intent{Operation: op}
	s := scanner{in: canonical}
	if !s.accept('{') {
		return Intent{}, invalid("", "must be a JSON object")
	}
	for first := true; !s.accept('}'); first = false {
		if !first && !s.accept(',') {
			return Intent{}, notCanonical()
		}
		quoted, ok := s.str()
		if !ok || !s.accept(':') {
			return Intent{}, notCanonical()
		}
		raw, ok := s.value(1)
		if !ok {
			return Intent{}, notCanonical()
		}
		if err := in.set(quoted[1:len(quoted)-1], raw); err != nil {
			return Intent{}, err
		}
	}
	if s.pos != len(canonical) {
		return Intent{}, notCanonical()
	}
	if missing := in.missing(); missing != "" {
		return Intent{}, invalid(missing, "is required")
	}
	if err := in.agreed(); err != nil {
		return Intent{}, err
	}
	return in, nil
}

// missing returns the first required member that was not sent.
func (in *Intent) missing() string {
	switch {
	case in.Operation.Orders():
		if in.Charge == "" {
			return "charge"
		}
		return ""
	case in.Amount == 0 && in.Operation != Refund:
		return "amount"
	case in.Charge == "" && in.Operation.GivesBack():
		return "charge"
	case in.Currency == "" && in.Operation != Refund:
		return "currency"
	case in.Source != "" || in.Operation == Refund:
		return ""
	case in.Operation == Transfer:
		return "destination"
	case in.Operation == Compensation:
		return "provider_ref"
	default:
		return "payment_method"
	}
}

func notCanonical() error { return invalid("", "is not canonical JSON") }

// set stores one member of its operation's request.
func (in *Intent) set(name, raw []byte) error {
	switch in.Operation {
	case Refund:
		return in.setRefund(name, raw)
	case Compensation:
		return in.setCompensation(name, raw)
	case Capture, Cancel:
		return in.setOrder(name, raw)
	default:
		return in.setPayment(name, raw)
	}
}

func (in *Intent) setPayment(name, raw []byte) (err error) {
	source, prefix := "payment_method", "pm_"
	if in.Operation == Transfer {
		source, prefix = "destination", "acct_"
	}
	switch string(name) {
	case "amount":
		in.Amount, err = amount(raw)
	case "currency":
		in.Currency, err = currency(raw)
	case source:
		in.Source, err = token(source, prefix, raw)
	case "description":
		in.description = raw
		err = limited("description", raw, MaxDescription)
	case "order_id":
		in.orderID = raw
		err = limited("order_id", raw, MaxOrderID)
		switch order := in.OrderID(); {
		case err != nil:
		case order == "":
			err = invalid("order_id", "must not be empty; leave it out instead")
		case strings.Contains(order, "\x00"):
			err = invalid("order_id", "must have no zero byte, as not every database finds one")
		}
	case "metadata":
		in.metadata = raw
		err = metadata(raw)
	case "provider":
		in.Provider, err = provider(raw)
	case "expires_at":
		in.expiresAt = raw
		in.ExpiresAt, err = expiry(raw)
	default:
		ok := false
		if in.Operation == Charge {
			ok, err = in.setTerms(string(name), raw)
		}
		if !ok {
			err = unknownMember(name)
		}
	}
	return err
}

func (in *Intent) setRefund(name, raw []byte) (err error) {
	switch string(name) {
	case "amount":
		in.Amount, err = amount(raw)
	case amountUnits:
		err = in.setUnits(raw)
	case "charge":
		in.Charge, err = chargeID(raw)
	case "metadata":
		in.metadata = raw
		err = metadata(raw)
	case "reason":
		in.reason = raw
		err = limited("reason", raw, MaxReason)
	default:
		err = unknownMember(name)
	}
	return err
}

func (in *Intent) setCompensation(name, raw []byte) (err error) {
	switch string(name) {
	case "currency":
		in.Currency, err = currency(raw)
	case "provider_ref":
		var ok bool
		if in.Source, ok = text(raw); !ok || in.Source == "" || len(in.Source) > MaxProviderRef {
			err = invalid("provider_ref", "must be a string of 1 to %d bytes", MaxProviderRef)
		}
	case "failed_before":
		n, perr := strconv.ParseUint(string(raw), 10, 8)
		if in.FailedBefore = int(n); perr != nil || n < 1 || n >= ledger.MaxGhostRefunds {
			err = invalid("failed_before", "must be 1 to %d", ledger.MaxGhostRefunds-1)
		}
	default:
		err = in.setRefund(name, raw)
	}
	return err
}

func unknownMember(name []byte) error {
	return invalid(MemberName(string(name)), "is not a member of this request; remove it")
}

// chargeID checks the form of a charge's id. The books show whether the charge exists.
func chargeID(raw []byte) (string, error) {
	id, _ := text(raw)
	if prefix, _, ok := claim.ReadObjectID(id); !ok || prefix != Prefix(Charge) {
		return "", invalid("charge", "must be the id of a charge, as it was answered: %s_…", Prefix(Charge))
	}
	return id, nil
}

func amount(raw []byte) (int64, error) { return amountOf("amount", raw) }

func amountOf(member string, raw []byte) (int64, error) {
	switch {
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		return 0, invalid(member, "must be a number: whole minor units, such as 1999 for 19.99")
	case raw[0] == '-' || string(raw) == "0":
		return 0, invalid(member, "must be above 0")
	}
	// Canonical integers below 10^21 are plain digits.
	if bytes.IndexByte(raw, '.') >= 0 && bytes.IndexByte(raw, 'e') < 0 || bytes.Contains(raw, []byte("e-")) {
		return 0, invalid(member, "must be whole minor units, such as 1999 for 19.99")
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n > MaxAmount {
		return 0, invalid(member, "must be at most %d minor units", int64(MaxAmount))
	}
	return n, nil
}

func currency(raw []byte) (string, error) {
	// A valid code is exactly three letters in quotes, with nothing to unescape.
	if len(raw) == currencyLength+2 && raw[0] == '"' {
		if code, ok := currencies[string(raw[1:len(raw)-1])]; ok {
			return code, nil
		}
	}
	return "", invalid("currency", "must be an ISO 4217 code in lower case, such as usd")
}

func token(member, prefix string, raw []byte) (string, error) {
	t, ok := text(raw)
	if !ok {
		return "", invalid(member, "must be a string: a token that starts with %s", prefix)
	}
	rest, ok := strings.CutPrefix(t, prefix)
	// A destination is an identifier, and is not refused for its look. [Screen] decides
	// whether a well-formed token may be sent: stored requests that were accepted once
	// must still parse, whatever card ranges were added since.
	if !ok && member == "payment_method" && HasCardNumber(t) {
		return "", cardAsToken()
	}
	if !ok || rest == "" || len(t) > MaxToken {
		return "", invalid(member, "must be a token that starts with %s and has at most %d characters", prefix, MaxToken)
	}
	for i := range len(rest) {
		switch c := rest[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return "", invalid(member, "must have only letters, digits, _ and - after %s", prefix)
		}
	}
	return t, nil
}

func cardAsToken() error {
	return invalid("payment_method", "holds what looks like a card number; send a token that starts with pm_, never a card number")
}

func limited(member string, raw []byte, limit int) error {
	if !isText(raw) {
		return invalid(member, "must be a string")
	}
	if len(raw)-len(`""`) > limit && characters(raw) > limit { // bytes first: counting them is free
		return invalid(member, "must have at most %d characters", limit)
	}
	return nil
}

func metadata(raw []byte) error {
	s := scanner{in: raw}
	if !s.accept('{') {
		return invalid("metadata", "must be an object of strings")
	}
	for n := 0; !s.accept('}'); n++ {
		if n == MaxMetadataEntries {
			return invalid("metadata", "must have at most %d entries", MaxMetadataEntries)
		}
		if n > 0 && !s.accept(',') {
			return notCanonical()
		}
		name, ok := s.str()
		if !ok || !s.accept(':') {
			return notCanonical()
		}
		value, ok := s.value(2)
		if !ok {
			return notCanonical()
		}
		switch path := name[1 : len(name)-1]; {
		case len(path) == 0:
			return invalid("metadata", "must not have an empty name")
		case len(path) > MaxMetadataName && characters(name) > MaxMetadataName:
			return invalid("metadata."+MemberName(string(path)), "must have a name of at most %d characters", MaxMetadataName)
		case value[0] != '"':
			return invalid("metadata."+MemberName(string(path)), "must be a string")
		case len(value)-len(`""`) > MaxMetadataValue && characters(value) > MaxMetadataValue:
			return invalid("metadata."+MemberName(string(path)), "must have at most %d characters; keep large data in your own system, and its id here", MaxMetadataValue)
		}
	}
	return nil
}

func expiry(raw []byte) (time.Time, error) {
	t, ok := text(raw)
	if ok && rfc3339(t) {
		if at, err := time.Parse(time.RFC3339, t); err == nil && !at.IsZero() {
			return at.UTC(), nil
		}
	}
	return time.Time{}, invalid("expires_at", "must be an RFC 3339 time, such as 2030-01-31T12:00:00Z")
}

// rfc3339 refuses what time.Parse accepts beyond RFC 3339: hours of one digit, commas
// before fractions, and offsets of a day or more.
func rfc3339(t string) bool {
	const shortest, hourEnd = len("2006-01-02T15:04:05Z"), len("2006-01-02T15")
	if len(t) < shortest || t[hourEnd] != ':' || strings.IndexByte(t, ',') >= 0 {
		return false
	}
	if t[len(t)-1] == 'Z' {
		return true
	}
	offset := t[len(t)-len("+00:00"):]
	return offset[1:3] <= "23" && offset[4:6] <= "59"
}

// MemberName returns a caller's own name for a member, safe for an error: cut to 64
// bytes, and never a card number.
func MemberName(name string) string {
	if HasCardNumber(name) {
		return "(digits)"
	}
	if len(name) > maxMemberName {
		return strings.ToValidUTF8(name[:maxMemberName], "") + "…"
	}
	return name
}
