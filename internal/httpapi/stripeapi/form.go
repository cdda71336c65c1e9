package stripeapi

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/homeward-io/homeward/payment"
)

// ParamError names the invalid parameter of a request, as Stripe does. It never repeats
// a value: that might be a card number.
type ParamError struct {
	// Param is its name, in bracket notation: metadata[color].
	Param string
	// Code is one of Stripe's error codes, or "" if it has none.
	Code string
	// Message is one or two sentences.
	Message string
}

func (e *ParamError) Error() string { return "parameter " + e.Param + ": " + e.Message }

// Error codes of the page "Error codes" for an invalid parameter.
const (
	codeEmpty     = "parameter_invalid_empty"
	codeInteger   = "parameter_invalid_integer"
	codeMissing   = "parameter_missing"
	codeUnknown   = "parameter_unknown"
	codeExclusive = "parameters_exclusive"
	codeNoSuch    = "resource_missing"
)

// form is a decoded form, by the names before the brackets.
type form map[string]*field

// field holds the values of one name: either alone, or with names in brackets.
type field struct {
	alone  []string
	inside map[string][]string
}

// parseForm reads the form of a query and that of a body (WHATWG URL,
// "application/x-www-form-urlencoded parsing") in Stripe's bracket notation. It refuses a
// parameter that is in both.
func parseForm(query, body string) (form, error) {
	pairs, err := url.ParseQuery(body)
	beside, wrong := url.ParseQuery(query)
	if err != nil || wrong != nil {
		return nil, &ParamError{Message: "The form could not be read: its encoding is broken. Send application/x-www-form-urlencoded."}
	}
	for _, name := range slices.Sorted(maps.Keys(beside)) {
		if _, twice := pairs[name]; twice {
			name = payment.MemberName(strings.ToValidUTF8(name, ""))
			return nil, &ParamError{Param: name, Code: codeExclusive, Message: "Received " + name + " both in the query and in the body. Send it in the body alone."}
		}
		pairs[name] = beside[name]
	}
	f := form{}
	for _, name := range slices.Sorted(maps.Keys(pairs)) { // sorted, so that one request has one error
		if err := f.add(name, pairs[name]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f form) add(name string, values []string) error {
	base, inner, bracketed := strings.Cut(name, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	// Only unsupported parameters have two levels of brackets.
	if base == "" || !utf8.ValidString(name) || bracketed != closed || strings.ContainsAny(inner, "[]") {
		return unknownParam(name)
	}
	for _, v := range values {
		if !utf8.ValidString(v) {
			return invalidParam(name, "it is not UTF-8")
		}
	}
	g := f[base]
	if g == nil {
		g = &field{inside: map[string][]string{}}
		f[base] = g
	}
	if bracketed {
		g.inside[inner] = values
	} else {
		g.alone = values
	}
	if g.alone != nil && len(g.inside) > 0 {
		return invalidParam(base, "it was sent both with names in brackets and without")
	}
	return nil
}

// one returns the value of a parameter that has one. A repeated parameter is refused,
// as it is ambiguous.
func (g *field) one(name string) (string, error) {
	if len(g.alone) != 1 {
		return "", invalidParam(name, "send one value")
	}
	return g.alone[0], nil
}

// list returns the values of a parameter that is sent as name[]=… or name[0]=….
func (g *field) list(name string) (all []string, err error) {
	if g.alone != nil {
		return nil, invalidParam(name, "send it as "+name+"[]=value")
	}
	for _, inner := range slices.Sorted(maps.Keys(g.inside)) {
		if strings.Trim(inner, "0123456789") != "" {
			return nil, unknownParam(name + "[" + inner + "]")
		}
		all = append(all, g.inside[inner]...)
	}
	return all, nil
}

// entries returns the values of a parameter that is sent as name[x]=…, by x. An empty
// value counts, as at Stripe, as absent.
func (g *field) entries(name string) (map[string]string, error) {
	if len(g.alone) == 1 && g.alone[0] == "" {
		return nil, nil
	}
	if g.alone != nil {
		return nil, invalidParam(name, "send it as "+name+"[name]=value")
	}
	all := map[string]string{}
	for _, inner := range slices.Sorted(maps.Keys(g.inside)) {
		full := name + "[" + inner + "]"
		switch values := g.inside[inner]; {
		case inner == "":
			return nil, invalidParam(full, "an entry needs a name")
		case len(values) != 1:
			return nil, invalidParam(full, "send one value")
		case values[0] != "":
			all[inner] = values[0]
		}
	}
	return all, nil
}

func invalidParam(name, why string) error {
	name = payment.MemberName(name)
	return &ParamError{Param: name, Message: "Invalid " + name + ": " + why + "."}
}

// NoSuch refuses a parameter that names an object which does not exist.
func NoSuch(param string) error {
	return &ParamError{Param: param, Code: codeNoSuch, Message: "Invalid " + param + ": no such object is listed here."}
}

func unknownParam(name string) error {
	name = payment.MemberName(strings.ToValidUTF8(name, ""))
	return &ParamError{
		Param: name, Code: codeUnknown,
		Message: "Received unknown parameter: " + name + ". It is not served here; remove it.",
	}
}
