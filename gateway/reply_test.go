package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func deflated(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// TestAnAnswerThatCannotBeReadIsUnknown: a look-up's answer that no rule can look into is no "not found",
// whatever a rule behind it makes of its status.
func TestAnAnswerThatCannotBeReadIsUnknown(t *testing.T) {
	status, coding, body := 200, "", ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", coding)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL, plain(Route{Ask: Ask{Path: "/orders?ref={key}", SureAfter: time.Second, Replies: []Reply{
		{Status: []string{"2xx"}, Member: "/data/0", Outcome: "done"}, {Status: []string{"2xx", "404"}, Outcome: "released"},
	}}}))
	a := recovery(attemptOf(t, g, post("/orders", `{}`, "Content-Type", "application/json")))
	a.Record.NotFounds = 1
	const there, not = `{"data":[{"id":7}]}`, `{"data":[]}`
	for name, c := range map[string]struct {
		status       int
		coding, body string
		want         claim.Outcome
	}{
		"there":                         {200, "", there, &claim.Done{}},
		"not there":                     {200, "", not, &claim.Released{}},
		"there, packed":                 {200, "gzip", gzipped(t, there), &claim.Done{}},
		"not there, packed":             {200, "gzip", gzipped(t, not), &claim.Released{}},
		"another status":                {404, "", "not found", &claim.Released{}},
		"no body by its status":         {204, "", "", &claim.Released{}},
		"no body":                       {200, "", "", &claim.Unknown{}},
		"a page for people":             {200, "", "<html>We are back soon.</html>", &claim.Unknown{}},
		"half of it":                    {200, "", there[:9], &claim.Unknown{}},
		"two values":                    {200, "", not + there, &claim.Unknown{}},
		"a member twice":                {200, "", `{"data":[{"id":7}],"data":[]}`, &claim.Unknown{}},
		"UTF-16":                        {200, "", "\xff\xfe{\x00}\x00", &claim.Unknown{}},
		"more than is kept":             {200, "", not + strings.Repeat(" ", replyBytes), &claim.Unknown{}},
		"packed in an unknown way":      {200, "br", "\x0b\x09\x80", &claim.Unknown{}},
		"only said to be packed":        {200, "gzip", not, &claim.Unknown{}},
		"packed twice":                  {200, "gzip, gzip", gzipped(t, gzipped(t, there)), &claim.Unknown{}},
		"packed, half of it":            {200, "gzip", gzipped(t, there)[:20], &claim.Unknown{}},
		"packed, more than is kept":     {200, "gzip", gzipped(t, not+strings.Repeat(" ", replyBytes)), &claim.Unknown{}},
		"packed, and not said to be so": {200, "", gzipped(t, there), &claim.Unknown{}},
	} {
		status, coding, body = c.status, c.coding, c.body
		assert.IsType(t, c.want, g.Attempt(t.Context(), a), name)
	}
}

// TestRulesReadAPackedReply: they read what is in it, and its caller gets it as it came.
func TestRulesReadAPackedReply(t *testing.T) {
	coding, body := "", ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", coding)
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, body)
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL, plain(Route{Profile: "adyen"}))
	const processed, wrong = `{"errorCode":"704"}`, `{"errorCode":"101"}`
	for name, c := range map[string]struct {
		coding, body string
		want         claim.Outcome
	}{
		"plain":                      {"identity", wrong, &claim.Refused{}},
		"gzip":                       {"gzip", gzipped(t, wrong), &claim.Refused{}},
		"gzip, in progress":          {"GZIP", gzipped(t, processed), &claim.Unknown{}},
		"gzip by its old name":       {"x-gzip", gzipped(t, wrong), &claim.Refused{}},
		"deflate":                    {"deflate", deflated(t, wrong), &claim.Refused{}},
		"deflate, in progress":       {"deflate", deflated(t, processed), &claim.Unknown{}},
		"deflate without its header": {"deflate", deflated(t, wrong)[2:], &claim.Unknown{}},
		"another":                    {"br", wrong, &claim.Unknown{}},
		"two":                        {"deflate, gzip", gzipped(t, deflated(t, wrong)), &claim.Unknown{}},
		"broken":                     {"gzip", gzipped(t, wrong)[:20], &claim.Unknown{}},
	} {
		coding, body = c.coding, c.body
		got := attempt(t, g, post("/payments", `{}`, "Content-Type", "application/json", "Accept-Encoding", "gzip"))
		assert.IsType(t, c.want, got, name)
		if no, ok := got.(*claim.Refused); ok {
			assert.Equal(t, []string{c.coding, c.body}, []string{no.Response.Field("Content-Encoding"), string(no.Response.Body)}, name)
		}
	}
}

// TestTheValuesOfARule: they are the same in a request that is stored, however long a number is, and however
// a reply spells it.
func TestTheValuesOfARule(t *testing.T) {
	body := ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"code":`+body+`}`)
	}))
	defer upstream.Close()
	for _, c := range []struct {
		is   any
		body string
		fits bool
	}{
		{1000001, "1000001", true},
		{1000001, "1.000001e6", true},
		{1000001, `"1000001"`, true},
		{1000001, "1000002", false},
		{1000001.0, "1000001", true},
		{1e21, "1000000000000000000000", true},
		{0.25, "25e-2", true},
		{int64(9007199254740993), "9007199254740993", true},
		{int64(9007199254740993), "9007199254740992", false},
		{uint64(18446744073709551615), "18446744073709551615", true},
		{"1000001", "1000001", true},
		{"1.0", "1", true},
		{"1.0", "1.0", true},
		{"1.0", `"1.0"`, true},
		{"1.0", `"1"`, false},
		{true, "true", true},
		{true, "false", false},
		{nil, "null", true},
		{"failed", `"failed"`, true},
		{"", "0", false},
		{"", "[]", false},
		{"", "{}", false},
	} {
		body = c.body
		g := newGateway(t, upstream.URL, plain(Route{Replies: []Reply{{Member: "/code", Is: []any{"other", c.is}, Outcome: "unknown"}}}))
		_, fits := attempt(t, g, post("/", `{}`)).(*claim.Unknown)
		assert.Equal(t, c.fits, fits, "%v %s", c.is, c.body)
	}
}

// TestNullIsNoMember: {"order":null} finds no more than {} does. It may still leave a request in doubt.
func TestNullIsNoMember(t *testing.T) {
	body := ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer upstream.Close()
	for _, c := range []struct {
		rule Reply
		body string
		fits bool
	}{
		{Reply{Outcome: "done"}, `{"order":null}`, false},
		{Reply{Outcome: "refused"}, `{"order":null}`, false},
		{Reply{Outcome: "released"}, `{"order":null}`, false},
		{Reply{Outcome: "unknown"}, `{"order":null}`, true},
		{Reply{Outcome: "unknown"}, `{}`, false},
		{Reply{Outcome: "done", Is: []any{nil}}, `{"order":null}`, true},
		{Reply{Outcome: "done"}, `{"order":{}}`, true},
		{Reply{Outcome: "refused"}, `{"order":false}`, true},
	} {
		c.rule.Member, body = "/order", c.body
		other := Reply{Status: []string{"2xx"}, Outcome: "done"} // what counts if the rule does not fit
		if c.rule.Outcome == "done" {
			other.Outcome = "unknown"
		}
		g := newGateway(t, upstream.URL, plain(Route{Ask: Ask{Path: "/orders?ref={key}", SureAfter: time.Second, Replies: []Reply{c.rule, other}}}))
		a := recovery(attemptOf(t, g, post("/orders", `{}`)))
		a.Record.NotFounds = 1
		want := other.Outcome
		if c.fits {
			want = c.rule.Outcome
		}
		assert.IsType(t, map[string]claim.Outcome{"done": &claim.Done{}, "refused": &claim.Refused{}, "released": &claim.Released{}, "unknown": &claim.Unknown{}}[want],
			g.Attempt(t.Context(), a), "%v %s", c.rule, c.body)
	}
}
