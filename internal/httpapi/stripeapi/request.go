package stripeapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment"
)

// Resource is one of the supported kinds of Stripe objects. Its value is the member
// "object".
type Resource string

// The resources that are served.
const (
	Charge        Resource = "charge"
	PaymentIntent Resource = "payment_intent"
	Refund        Resource = "refund"
	Transfer      Resource = "transfer"
)

// MediaType is that of the bodies that Stripe's clients send.
const MediaType = "application/x-www-form-urlencoded"

// View is how one request wants its answer rendered. The zero value with a Resource
// expands nothing.
type View struct {
	Resource Resource
	// Key is the caller's idempotency key, for the messages that name it.
	Key string
	// Method and Path are those of the request, for the message that there is no such
	// URL.
	Method, Path string
	// Action is the action on the resource, "capture" or "cancel"; "" to create it.
	Action string
	// Account is the connected account that makes a payment, Stripe-Account.
	Account string
	// expand has the properties that the request asked to expand.
	expand []string
	// called is the caller's name for a member that has two.
	called map[string]string
}

// Tag distinguishes v's rendering of an object from all others, in the object's entity tag.
func (v View) Tag() string {
	return strings.Join(append([]string{"", string(v.Resource)}, slices.Sorted(slices.Values(v.expand))...), "-")
}

type kind int

const (
	text    kind = iota
	whole        // a whole number
	code         // a currency, in lower case here
	intent       // the id of a payment intent, for its charge's
	yesNo        // true or false
	entries      // name[x]=…, strings
	parts        // name[x]=…, each as a parameter of its own
	// A parameter that states the default: it must have one of the values.
	fixed
	holds  // one of the values, of which the last holds the money
	listed // name[]=…
	inside // name[x]=…
)

// param is one parameter of an endpoint.
type param struct {
	name   string
	kind   kind
	member string // of the merchant's API; name when empty
	needed bool
	values []string            // the only ones that are served; nil for any
	within map[string][]string // those of inside
	parts  []param             // those of parts
}

var (
	amount   = param{name: "amount", kind: whole, needed: true}
	currency = param{name: "currency", kind: code, needed: true}
	// Parameters that Stripe's own API lacks, and the merchant's has.
	orderID   = param{name: "order_id"}
	expiresAt = param{name: "expires_at"}
	sentText  = param{name: "description"}
	metadata  = param{name: "metadata", kind: entries}
	// Parameters of a payment beside its amount.
	customer     = param{name: "customer"}
	suffix       = param{name: "statement_descriptor_suffix"}
	onBehalfOf   = param{name: "on_behalf_of"}
	fee          = param{name: "application_fee_amount", kind: whole}
	transferData = param{name: "transfer_data", kind: parts, parts: []param{{name: "destination", needed: true}, {name: "amount", kind: whole}}}
)

// served are the parameters of each endpoint that creates. All others are refused.
var served = map[Resource][]param{
	Charge: {
		amount, currency, sentText, metadata, orderID, expiresAt, customer, suffix, onBehalfOf, fee, transferData,
		{name: "payment_method", needed: true},
		{name: "source", member: "payment_method"},
		{name: "capture", kind: holds, member: memberCapture, values: []string{"true", "false"}},
	},
	PaymentIntent: {
		amount, currency, sentText, metadata, orderID, expiresAt, customer, suffix, onBehalfOf, fee, transferData,
		{name: "payment_method", needed: true},
		{name: "confirm", kind: fixed, needed: true, values: []string{"true"}},
		{name: memberCapture, kind: holds, values: []string{"automatic", "automatic_async", "manual"}},
		{name: "confirmation_method", kind: fixed, values: []string{"automatic"}},
		{name: "off_session", kind: yesNo},
		{name: "setup_future_usage"},
		{name: "return_url"},
		{name: "payment_method_types", kind: listed, values: []string{"card"}},
		{name: "automatic_payment_methods", kind: inside, within: map[string][]string{"enabled": {"true"}, "allow_redirects": {"never"}}},
	},
	Refund: {
		{name: "charge", needed: true},
		{name: "payment_intent", kind: intent, member: "charge"},
		{name: "amount", kind: whole},
		{name: "reason", values: reasons},
		metadata,
	},
	Transfer: {amount, currency, sentText, metadata, orderID, expiresAt, {name: "destination", needed: true}},

	Charge + "/capture":        {{name: "amount", kind: whole}},
	Charge + "/cancel":         {},
	PaymentIntent + "/capture": {{name: "amount_to_capture", kind: whole, member: "amount"}},
	PaymentIntent + "/cancel":  {{name: "cancellation_reason", kind: fixed, values: cancellations}},
}

// Members of the merchant's API that are no parameters of the same meaning.
const (
	memberOffSession = "off_session"
	memberAccount    = "account"
	memberCapture    = "capture_method"
)

// cancellations are Stripe's cancellation reasons, which are not stored.
var cancellations = []string{"abandoned", "duplicate", "fraudulent", "requested_by_customer"}

// endpoint is v's key in served.
func (v *View) endpoint() Resource {
	if v.Action == "" {
		return v.Resource
	}
	return v.Resource + Resource("/"+v.Action)
}

// reasons are Stripe's reasons for a refund.
var reasons = []string{"duplicate", "fraudulent", "requested_by_customer"}

// The properties that can be expanded: they follow from the same bytes.
const (
	expandIntent  = "payment_intent"
	expandCharge  = "latest_charge"
	expandRefunds = "refunds"
)

var expandable = map[Resource][]string{Charge: {expandIntent, expandRefunds}, PaymentIntent: {expandCharge, expandCharge + "." + expandRefunds}}

// ReadForm converts the parameters of a request that creates v.Resource, in its query and
// its body, to the equivalent JSON body of the merchant's API, and records in v how its
// answer is to be rendered.
// The JSON is not canonical, and is only checked for unknown parameters and types. The
// error is a *[ParamError].
func (v *View) ReadForm(query string, body []byte) ([]byte, error) {
	f, err := parseForm(query, string(body))
	if err != nil {
		return nil, err
	}
	of := v.endpoint()
	v.called = map[string]string{}
	if err := v.readExpand(f, ""); err != nil {
		return nil, err
	}
	members := map[string]any{}
	for _, p := range served[of] {
		g := f[p.name]
		delete(f, p.name)
		if g == nil {
			continue
		}
		if err := v.take(p, g, members); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		return nil, unknownParam(name)
	}
	for _, p := range served[of] {
		if _, ok := members[p.to()]; p.needed && !ok {
			return nil, p.missing()
		}
	}
	for _, p := range served[of] {
		if p.kind == fixed { // takeOne has checked it
			delete(members, p.to())
		}
	}
	if v.Account != "" {
		members[memberAccount] = v.Account
		v.called[memberAccount] = "Stripe-Account"
	}
	// At Stripe the payer is present unless the request says otherwise; here it is the
	// other way round. A charge never asks for the payer at either.
	if of == PaymentIntent {
		if away, _ := members[memberOffSession].(bool); away {
			delete(members, memberOffSession)
		} else {
			members[memberOffSession] = false
		}
	}
	return json.Marshal(members)
}

func (p *param) missing() error {
	e := &ParamError{Param: p.name, Code: codeMissing, Message: "Missing required param: " + p.name + "."}
	if p.kind == fixed {
		e.Message += " Only " + p.name + "=" + p.values[0] + " is served here."
	}
	return e
}

func (p *param) to() string {
	if p.member != "" {
		return p.member
	}
	return p.name
}

// take converts the value of p into members.
func (v *View) take(p param, g *field, members map[string]any) error {
	switch p.kind {
	case entries:
		all, err := g.entries(p.name)
		if len(all) > 0 {
			members[p.to()] = all
		}
		return err
	case parts:
		return takeParts(p, g, members)
	case inside:
		return p.checkInside(g)
	case listed:
		all, err := g.list(p.name)
		for _, value := range all {
			if !slices.Contains(p.values, value) {
				return notServed(p.name, p.values)
			}
		}
		return err
	default:
		return v.takeOne(p, g, members)
	}
}

func (v *View) takeOne(p param, g *field, members map[string]any) error {
	value, err := g.one(p.name)
	if err != nil {
		return err
	}
	if value == "" {
		if p.optional() {
			return nil // Stripe's form of an absent value
		}
		return emptyParam(p.name)
	}
	sent, err := p.read(value)
	if err != nil {
		return err
	}
	if p.kind == holds {
		if value != p.values[len(p.values)-1] {
			return nil // the same as without it
		}
		sent = "manual"
	}
	if _, ok := members[p.to()]; ok {
		return &ParamError{Param: p.name, Code: codeExclusive, Message: "You may only specify one of these parameters: " + p.to() + ", " + p.name + "."}
	}
	members[p.to()] = sent
	v.called[p.to()] = p.name
	return nil
}

func emptyParam(name string) *ParamError {
	return &ParamError{Param: name, Code: codeEmpty, Message: "You passed an empty string for '" + name + "'. Leave it out, or send a value."}
}

// optional reports whether p may be sent empty.
func (p *param) optional() bool { return p.kind == text && !p.needed && p.member == "" }

// read converts a value to the merchant's API's.
func (p *param) read(value string) (any, error) {
	if p.values != nil && !slices.Contains(p.values, value) {
		return nil, notServed(p.name, p.values)
	}
	switch p.kind {
	case whole:
		return wholeNumber(p.name, value)
	case code:
		return strings.ToLower(value), nil
	case yesNo:
		if value != "true" && value != "false" {
			return nil, notServed(p.name, []string{"true", "false"})
		}
		return value == "true", nil
	case intent:
		if id, ok := chargeOf(value); ok {
			return id, nil
		}
		return nil, &ParamError{Param: p.name, Code: codeNoSuch, Message: "No such payment_intent: ids of them start with " + intentPrefix + "."}
	default:
		return value, nil
	}
}

func takeParts(p param, g *field, members map[string]any) error {
	all, err := g.entries(p.name)
	if err != nil {
		return err
	}
	object := map[string]any{}
	for _, part := range p.parts {
		value, ok := all[part.name]
		delete(all, part.name)
		part.name = p.name + "[" + part.name + "]"
		switch {
		case ok:
			_, last, _ := strings.Cut(strings.TrimSuffix(part.name, "]"), "[")
			if object[last], err = part.read(value); err != nil {
				return err
			}
		case part.needed:
			return part.missing()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		return unknownParam(p.name + "[" + name + "]")
	}
	members[p.to()] = object
	return nil
}

func (p *param) checkInside(g *field) error {
	all, err := g.entries(p.name)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		full := p.name + "[" + name + "]"
		values, ok := p.within[name]
		if !ok {
			return unknownParam(full)
		}
		if !slices.Contains(values, all[name]) {
			return notServed(full, values)
		}
	}
	return err
}

func notServed(name string, values []string) error {
	return &ParamError{Param: name, Message: "Invalid " + name + ": must be one of " + strings.Join(values, ", ") + "; nothing else is served here."}
}

// wholeNumber returns value as a JSON number. It does not check the range.
func wholeNumber(name, value string) (json.Number, error) {
	bare, negative := strings.CutPrefix(value, "-")
	if bare == "" || strings.Trim(bare, "0123456789") != "" {
		return "", &ParamError{Param: name, Code: codeInteger, Message: "Invalid integer for " + name + ": send whole minor units, such as 1999 for 19.99."}
	}
	if bare = strings.TrimLeft(bare, "0"); bare == "" {
		return "0", nil
	}
	if negative {
		bare = "-" + bare
	}
	return json.Number(bare), nil
}

// ReadQuery reads the query of a request for a v.Resource. It supports expand alone.
// The error is a *[ParamError].
func (v *View) ReadQuery(query string) error {
	f, err := parseForm(query, "")
	if err != nil {
		return err
	}
	if err := v.readExpand(f, ""); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		return unknownParam(name)
	}
	return nil
}

// Paging is which part of a list a request asks for: at most Limit objects, after one or before one.
type Paging struct {
	Limit         int
	After, Before string
}

// The sizes of a page are Stripe's ("Pagination").
const (
	defaultPage = 10
	maxPage     = 100
)

// readPaging takes the parameters of a page, and those of to, out of f. It refuses any that is left.
func readPaging(f form, to map[string]*string) (p Paging, err error) {
	p.Limit = defaultPage
	var limit string
	to["limit"], to["starting_after"], to["ending_before"] = &limit, &p.After, &p.Before
	for _, name := range slices.Sorted(maps.Keys(to)) {
		g := f[name]
		delete(f, name)
		if g == nil {
			continue
		}
		if *to[name], err = g.one(name); err != nil {
			return p, err
		}
		if *to[name] == "" { // a list of all is not what was meant
			return p, emptyParam(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		return p, unknownParam(name)
	}
	if limit != "" {
		if p.Limit, err = strconv.Atoi(limit); err != nil || p.Limit < 1 || p.Limit > maxPage {
			return p, invalidParam("limit", "it is a whole number from 1 to "+strconv.Itoa(maxPage))
		}
	}
	if p.After != "" && p.Before != "" {
		return p, &ParamError{Param: "ending_before", Code: codeExclusive, Message: "You may only specify one of these parameters: starting_after, ending_before."}
	}
	return p, nil
}

// Page is which refunds of a charge a request lists.
type Page struct {
	Paging
	Charge string
}

// ReadPage reads the query of a request for the refunds of a charge. The error is a *[ParamError].
func ReadPage(query string) (p Page, err error) {
	f, err := parseForm(query, "")
	if err != nil {
		return p, err
	}
	var intent string
	if p.Paging, err = readPaging(f, map[string]*string{"charge": &p.Charge, expandIntent: &intent}); err != nil {
		return p, err
	}
	switch {
	case intent != "" && p.Charge != "":
		return p, &ParamError{Param: expandIntent, Code: codeExclusive, Message: "You may only specify one of these parameters: charge, payment_intent."}
	case intent != "":
		p.Charge, err = chargeBehind(intent)
	case p.Charge == "":
		err = &ParamError{Param: "charge", Code: codeMissing, Message: "Missing required param: charge. Refunds are listed for one charge, or one payment_intent."}
	}
	return p, err
}

// chargeBehind is chargeOf for a parameter payment_intent.
func chargeBehind(intent string) (string, error) {
	if id, ok := chargeOf(intent); ok {
		return id, nil
	}
	return "", &ParamError{Param: expandIntent, Code: codeNoSuch, Message: "No such payment_intent: ids of them start with " + intentPrefix + "."}
}

// Charges is which charges a request lists.
type Charges struct {
	Paging
	// Charge is the one behind a payment intent, "" if the request names none.
	Charge  string
	OrderID string
	// From and Until are when they were created: From is included, Until is not. Zero is no bound.
	From, Until time.Time
}

// ReadCharges reads the query of a request that lists charges, or payment intents, and records in v
// what it expands of each. The error is a *[ParamError].
func (v *View) ReadCharges(query string) (c Charges, err error) {
	f, err := parseForm(query, "")
	if err != nil {
		return c, err
	}
	if err := v.readExpand(f, "data."); err != nil {
		return c, err
	}
	if err := c.readCreated(f); err != nil {
		return c, err
	}
	var intent string
	to := map[string]*string{"order_id": &c.OrderID}
	if v.Resource != PaymentIntent {
		to[expandIntent] = &intent
	}
	if c.Paging, err = readPaging(f, to); err != nil {
		return c, err
	}
	if strings.IndexByte(c.OrderID, 0) >= 0 { // the books have none, and not every store can look for one
		return c, invalidParam("order_id", "charges are listed by one without a zero byte")
	}
	for name, cursor := range map[string]*string{"starting_after": &c.After, "ending_before": &c.Before} {
		if *cursor == "" {
			continue
		}
		if *cursor = v.ObjectID(*cursor); *cursor == "" { // without it the list would begin anew
			return c, NoSuch(name)
		}
	}
	if intent != "" {
		if c.Charge, err = chargeBehind(intent); err != nil {
			return c, err
		}
		if (c != Charges{Paging: Paging{Limit: c.Limit}, Charge: c.Charge}) {
			return c, &ParamError{Param: expandIntent, Code: codeExclusive, Message: "A payment_intent has one charge: specify no other parameter with it."}
		}
	}
	return c, nil
}

// latest is the latest time that created may be compared with: the end of the year 9999, in seconds.
const latest = 253402300799

// readCreated takes created out of f: a time, or bounds.
func (c *Charges) readCreated(f form) error {
	const name = "created"
	g := f[name]
	delete(f, name)
	if g == nil {
		return nil
	}
	bounds := g.inside
	if g.alone != nil {
		bounds = map[string][]string{"gte": g.alone, "lte": g.alone}
	}
	for _, inner := range slices.Sorted(maps.Keys(bounds)) {
		full := name + "[" + inner + "]"
		if g.alone != nil {
			full = name
		}
		if values := bounds[inner]; len(values) != 1 {
			return invalidParam(full, "send one value")
		}
		s, err := strconv.ParseInt(bounds[inner][0], 10, 64)
		if err != nil || s < 0 || s > latest {
			return &ParamError{Param: full, Code: codeInteger, Message: "Invalid integer for " + full + ": send a Unix time in seconds."}
		}
		switch at := time.Unix(s, 0).UTC(); inner {
		case "gte", "gt":
			if inner == "gt" {
				at = at.Add(time.Second)
			}
			if at.After(c.From) {
				c.From = at
			}
		case "lte", "lt":
			if inner == "lte" {
				at = at.Add(time.Second)
			}
			if c.Until.IsZero() || at.Before(c.Until) {
				c.Until = at
			}
		default:
			return unknownParam(full)
		}
	}
	return nil
}

// List renders a page of charges, each as the merchant's API has it: as Stripe does if stripe is set,
// else as they are.
func (v View) List(page []json.RawMessage, more, stripe bool) ([]byte, error) {
	url := payment.Path(payment.Charge)
	if v.Resource == PaymentIntent {
		url = "/v1/payment_intents"
	}
	l := newList(url)
	l.HasMore = more
	for _, body := range page {
		if stripe {
			var err error
			if body, err = v.Object(body); err != nil {
				return nil, err
			}
		}
		l.Data = append(l.Data, body)
	}
	return json.Marshal(l)
}

// Refunds renders a page of the refunds of a charge, as it was read: as Stripe does, or, without
// stripe, as the merchant's API does. The error is a *[ParamError] if the page begins at no refund
// of it.
func (p Page) Refunds(charge []byte, stripe bool) ([]byte, error) {
	n, err := readNative(charge)
	if err != nil {
		return nil, err
	}
	var raw struct {
		Refunds []json.RawMessage `json:"refunds"`
	}
	if err := json.Unmarshal(charge, &raw); err != nil {
		return nil, err
	}
	from, to := 0, min(p.Limit, len(n.Refunds))
	for name, cursor := range map[string]string{"starting_after": p.After, "ending_before": p.Before} {
		if cursor == "" {
			continue
		}
		at := slices.IndexFunc(n.Refunds, func(r native) bool { return r.ID == cursor })
		if at < 0 {
			return nil, &ParamError{Param: name, Code: codeNoSuch, Message: "No such refund of this charge: " + payment.MemberName(cursor) + "."}
		}
		if from, to = at+1, min(at+1+p.Limit, len(n.Refunds)); cursor == p.Before {
			from, to = max(0, at-p.Limit), at
		}
	}
	page := newList(n.refundsURL())
	if page.HasMore = to < len(n.Refunds); p.Before != "" {
		page.HasMore = from > 0
	}
	for i := from; i < to; i++ {
		if stripe {
			page.Data = append(page.Data, n.Refunds[i].refund())
		} else {
			page.Data = append(page.Data, raw.Refunds[i])
		}
	}
	return json.Marshal(page)
}

// readExpand takes expand out of f. of is what each property begins with.
func (v *View) readExpand(f form, of string) error {
	g := f["expand"]
	delete(f, "expand")
	if g == nil {
		return nil
	}
	all, err := g.list("expand")
	for _, property := range all {
		property, ok := strings.CutPrefix(property, of)
		missing := of != "" && strings.HasSuffix(property, expandRefunds) // an item of a list has none
		if !ok || missing || !slices.Contains(expandable[v.Resource], property) {
			return &ParamError{Param: "expand", Message: "This property cannot be expanded (" + payment.MemberName(property) + ")."}
		}
		if property == expandCharge+"."+expandRefunds {
			v.expand = append(v.expand, expandCharge) // as at Stripe
		}
		v.expand = append(v.expand, property)
	}
	return err
}

// A charge and its payment intent are one object here: their ids differ in the prefix.
const (
	chargePrefix = "ch_"
	intentPrefix = "pi_"
)

// chargeOf returns the id of the charge behind the payment intent of this id.
func chargeOf(intentID string) (charge string, ok bool) {
	rest, ok := strings.CutPrefix(intentID, intentPrefix)
	return chargePrefix + rest, ok
}

// intentOf is the inverse of chargeOf.
func intentOf(charge string) string { return intentPrefix + strings.TrimPrefix(charge, chargePrefix) }

// ObjectID returns the id in the merchant's API of the resource with Stripe's id.
func (v View) ObjectID(id string) string {
	if v.Resource != PaymentIntent {
		return id
	}
	if charge, ok := chargeOf(id); ok {
		return charge
	}
	return ""
}
