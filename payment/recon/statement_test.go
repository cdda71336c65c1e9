package recon

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

func readAll(text string, f Format) (lines []Line, err error) {
	n, err := Read(strings.NewReader(text), f, func(l Line) error { lines = append(lines, l); return nil })
	if n != len(lines) {
		panic("the count is not what was handed out")
	}
	return lines, err
}

func TestBothFormatsSayTheSame(t *testing.T) {
	want := []Line{
		{"p1", psp.KindCharge, "ch_1", 2000, "usd", time.Unix(1_700_000_000, 0).UTC(), false, "p1", "", "usd", 2000, 0},
		{"p2", psp.KindRefund, "", 5, "eur", time.Date(2030, 1, 31, 11, 0, 0, 0, time.UTC), true, "p2", "", "eur", 5, 0},
	}
	csv, err := readAll("\ufeffcreated,Fee,id,kind,reference,amount,currency\n1700000000,x,p1,charge,ch_1,2000,USD\n2030-01-31T12:00:00+01:00,y,p2,REFUND_FAILED,,5,eur\n", CSV)
	require.NoError(t, err)
	require.Equal(t, want, csv)
	json, err := readAll(`{"id":"p1","kind":"charge","reference":"ch_1","amount":2000,"currency":"usd","created":1700000000,"fee":1}`+"\n\n"+
		`{"id":"p2","kind":"refund_failed","reference":"","amount":5,"currency":"eur","created":"2030-01-31T11:00:00Z"}`, JSONLines)
	require.NoError(t, err)
	require.Equal(t, want, json)
}

func TestWhatIsWrongIsNamedWithItsLine(t *testing.T) {
	const head = "id,kind,reference,amount,currency,created\n"
	long := strings.Repeat("x", maxLine+3*readAhead)
	for _, c := range []struct{ text, want string }{
		{"", "line 1: has no line with the names"},
		{"id,kind,reference,amount,created\n", "line 1: has no column currency"},
		{head + "p,charge,r,1.5,usd,1\n", "line 2: amount must be whole minor units"},
		{head + "p,charge,r,0,usd,1\n", "line 2: amount"},
		{head + "p,charge,r,-5,usd,1\n", "line 2: amount"},
		{head + "p,charge,r,9999999999999,usd,1\n", "line 2: amount"},
		{head + "p,charge,r,1,usd,1\n,charge,r,1,usd,1\n", "line 3: id must have"},
		{head + "p,charge,r,1,dollars,1\n", "line 2: currency"},
		{head + "p,charge,r,1,usd,yesterday\n", "line 2: created"},
		{head + "p,charge,r,1,usd\n", "line 2: wrong number of fields"},
		{head + "p,\"charge,r,1,usd,1\n", "extraneous or missing \""},
		{head + "p,charge,r,1,usd,99999999999999\n", "line 2: created must be in the years"},
		{head + "\"p\"x,charge,r,1,usd,1\n", "line 2: extraneous or missing \""},
		{head + long, "line 2: is longer than"},
		// A quote that is never closed, with lines of the usual length after it.
		{head + "p,charge,\"r,1,usd,1\n" + strings.Repeat("p,charge,r,1,usd,1\n", maxLine/8), "line 2: is longer than"},
		{long, "line 1: is longer than"},
	} {
		_, err := readAll(c.text, CSV)
		require.ErrorContains(t, err, c.want, "%.60q", c.text)
	}
	for _, c := range []struct{ text, want string }{
		{"{\"id\":1}\n", "line 1: is not a JSON object"},
		{"[]\n", "line 1: is not a JSON object"},
		{`{"id":"p","kind":"charge","amount":"12","currency":"usd","created":1}` + "\n{", "line 2: is not a JSON object"},
		{`{"id":"p","kind":"charge","amount":1e2,"currency":"usd","created":1}`, "line 1: amount"},
		{"\n\n" + long, "line 3: is longer than"},
	} {
		_, err := readAll(c.text, JSONLines)
		require.ErrorContains(t, err, c.want, "%.60q", c.text)
	}
	_, err := readAll("", "xml")
	require.ErrorContains(t, err, "use csv, jsonl, adyen")
}

// A long statement is no long line.
func TestLinesAreBoundedEachByItself(t *testing.T) {
	line := "p,charge,r,1,usd,1," + strings.Repeat("x", maxLine/2) + "\n"
	lines, err := readAll("id,kind,reference,amount,currency,created,note\n"+strings.Repeat(line, 50), CSV)
	require.NoError(t, err)
	require.Len(t, lines, 50)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("id,kind,reference,amount,currency,created\np,charge,r,1,usd,1\n"), true)
	f.Add([]byte(`{"id":"p","kind":"charge","amount":1,"currency":"usd","created":1}`), false)
	f.Fuzz(func(t *testing.T, text []byte, csv bool) {
		format := JSONLines
		if csv {
			format = CSV
		}
		_, err := Read(bytes.NewReader(text), format, func(l Line) error {
			if l.ID == "" || l.Amount <= 0 || len(l.Currency) != 3 || l.At.IsZero() && l.At.Year() != 1 {
				t.Fatalf("handed out %+v", l)
			}
			return nil
		})
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("more than one line: %q", err)
		}
	})
}
