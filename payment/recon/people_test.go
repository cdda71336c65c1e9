package recon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

const bom = "\ufeff"

// inUTF16 writes text as some programs save it.
func inUTF16(text string, big, mark bool) string {
	if mark {
		text = bom + text
	}
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			b.Write([]byte{byte(u >> 8), byte(u)})
		} else {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
	}
	return b.String()
}

// statements are small ones of every format, each with one line.
var statements = map[Format]string{
	CSV:       "\"id\",\"kind\",\"reference\",\"amount\",\"currency\",\"created\"\r\np,charge,r,1,usd,1\r\n",
	JSONLines: `{"id":"p","kind":"charge","reference":"r","amount":1,"currency":"usd","created":1}` + "\n",
	"stripe":  "\"created_utc\",balance_transaction_id,currency,gross,fee,reporting_category,source_id,payment_intent_id\n2026-03-01 12:00:00,txn_1,usd,1.00,0.00,charge,ch_1,pi_1\n",
	"adyen": "\"Psp Reference\",Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC)\n" +
		"1,ch_1,2026-03-01 12:00:00,CET,Settled,2,EUR,,1.00,EUR,,1.00\n",
	"paypal": "\"RH\",\"2026/03/02 05:12:00 -0800\"\n\"CH\",\"Transaction ID\",\"Invoice ID\",\"Transaction Event Code\",\"Transaction Completion Date\",\"Transaction Debit or Credit\",\"Gross Transaction Amount\",\"Gross Transaction Currency\"\n" +
		"\"SB\",\"1A\",\"ch_1\",\"T0006\",\"2026/03/01 05:50:24 -0800\",\"CR\",100,\"USD\"\n",
}

// A byte order mark is no part of a statement, in any format; what cannot be read as a
// statement is named for what it is, in one line.
func TestHowFilesAreSaved(t *testing.T) {
	for f, text := range statements {
		for _, text := range []string{text, bom + text} {
			lines, err := readAll(text, f)
			require.NoError(t, err, f)
			require.Len(t, lines, 1, f)
		}
		for _, big := range []bool{true, false} {
			for _, mark := range []bool{true, false} {
				_, err := readAll(inUTF16(text, big, mark), f)
				require.ErrorContains(t, err, "line 1: is in UTF-16; save it as UTF-8", f)
			}
		}
		_, err := readAll("sep=,\r\n"+text, f)
		require.ErrorContains(t, err, `line 1: is "sep=,", which spreadsheets write`, f)
		_, err = readAll(bom+"SEP=;\n"+text, f)
		require.ErrorContains(t, err, `remove that line`, f)
		_, err = readAll(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\r"), "\n", "\r")+"x", f)
		require.ErrorContains(t, err, "line 1: has lines that end with a carriage return alone", f)
		require.NotContains(t, err.Error(), "\r")
	}
	_, err := readAll(`{"id":"p","kind":"charge","amount":1,"currency":"usd","created":1}`+"\r", JSONLines)
	require.NoError(t, err, "one line may end as it likes")
}

// Numbers are as banks and providers write them. What may mean two amounts is refused.
func TestNumbersAsTheyAreWritten(t *testing.T) {
	for _, c := range []struct {
		decimal, group, currency string
		texts                    string // separated by |
		want                     int64  // 0: refused
	}{
		{".", "", "eur", "12.5|12.50|012.50|+12.50|+ 12.50|12.50+|12.5000", 1250},
		{".", "", "eur", ".50|0.5|+.5", 50},
		{".", "", "eur", "12.|12|12.0", 1200},
		{",", ".", "eur", ",50", 50},
		{",", ".", "eur", "12,|12", 1200}, // as MT940 has it
		{".", "", "eur", "-12.50|12.50-|12.50 -|- 12.50|(12.50)|( 12.50 )|\u221212.50|12.50\u2212|\u201312.50", -1250},
		{",", ".", "eur", "1.234,50|1234,50|1 234,50|1\u00a0234,50|1\u202f234,50|1'234,50|1\u2019234,50", 123450},
		{".", "", "usd", "1,234.50|1 234.50|1'234.50|1234.50", 123450},
		{".", "", "usd", "1,234,567|1 234 567|1,234,567.00|1'234'567.0", 123456700},
		{".", "", "inr", "12,34,567.00|12,34,567", 123456700}, // lakhs
		{".", ",", "usd", "1,234", 123400},                    // the mapping defines the comma
		{".", "", "usd", "0.500", 50},
		{".", ",", "usd", "12.500", 1250},
		{".", "", "jpy", "1234|1234.00|1 234", 1234},
		{".", "", "kwd", "1.234", 1234},
		{".", "", "usd", "(1,234.50)|1,234.50-", -123450},

		{".", "", "usd", "1,234|12.500|1,50|12,5|1,2345.00|,50|12,345,67|1.234|1.230|1.2.3|1.234.567,00", 0}, // the comma is ambiguous
		{",", ".", "eur", "12.50|1.23|1.2345,00|1.234.56,00|1,234|1.234.5|.5", 0},
		{".", "", "usd", "-|+|.|()|(-12.50)|-(12.50)|--12|-12-|+12-|(12.50|12.50)|1e3|12.505|0x10|٣|1_000|1  234|1 23|12 34.00|$12.50|12.50 USD|NaN", 0},
	} {
		m := &Mapping{Numbers: Numbers{Unit: unitMajor, Decimal: c.decimal, Group: c.group}}
		for text := range strings.SplitSeq(c.texts, "|") {
			got, err := (&sheet{m: m}).number(text, c.currency)
			if c.want == 0 {
				require.Error(t, err, "%q of %s is %d", text, c.currency, got)
				require.Contains(t, err.Error(), "amount must be a number of major units")
				continue
			}
			require.NoError(t, err, "%q", text)
			require.Equal(t, c.want, got, "%q", text)
		}
	}
	minor := &sheet{m: &Mapping{Numbers: Numbers{Unit: unitMinor, Decimal: "."}}}
	for text, want := range map[string]int64{"1250": 1250, "1250.00": 1250, "1250-": -1250, "1,234,567": 1234567, "12.50": 0, ".50": 0, "1,250": 0} {
		got, err := minor.number(text, "usd")
		require.Equal(t, want, got, text)
		require.Equal(t, want == 0, err != nil, text)
	}
}

// FuzzNumber: whatever a text is, it has at most one amount, and nothing but its notation
// decides which.
func FuzzNumber(f *testing.F) {
	for _, text := range []string{"1,234.50", "(.5)", "12.-", "1 234", "\u22121'000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		point := &sheet{m: &Mapping{Numbers: Numbers{Unit: unitMajor, Decimal: "."}}}
		comma := &sheet{m: &Mapping{Numbers: Numbers{Unit: unitMajor, Decimal: ","}}}
		a, errA := point.number(text, "usd")
		b, errB := comma.number(text, "usd")
		if errA == nil && errB == nil && a != b {
			t.Fatalf("%q is %d and %d: it is ambiguous", text, a, b)
		}
	})
}

// One line that cannot be read is a finding with its number, and the others are compared.
func TestALineThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.paid(1)
	w.lines = append(w.lines, "p,charge,r,none,usd,1", "p,charge,\"r\"x,1,usd,1", "p,charge,r,1,usd")
	w.paid(2)
	report, all := w.run()
	require.Equal(t, 2, report.Agree)
	require.Equal(t, 2, report.Lines)
	require.Equal(t, map[Class]int{UnreadableLine: 3}, report.Mismatches)
	for i, want := range []string{"line 3: amount must be whole minor units", `line 4: extraneous or missing " in quoted-field`, "line 5: wrong number of fields"} {
		require.Contains(t, all[i].Detail, want)
		require.False(t, all[i].Refundable)
	}

	// The same of the other formats.
	for f, text := range statements {
		head, line := text[:strings.LastIndex(strings.TrimSpace(text), "\n")+1], text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]
		for _, bad := range []string{strings.Replace(line, "1.00", "x", 1), strings.Replace(line, ",100,", ",x,", 1), strings.Replace(strings.Replace(line, ",1,", ",x,", 1), `:1,`, `:x,`, 1)} {
			if bad == line {
				continue
			}
			w := newWorld(t)
			var found []Mismatch
			w.c.Found = func(_ context.Context, m Mismatch) error { found = append(found, m); return nil }
			report, err := Run(t.Context(), w.c, strings.NewReader(head+bad+line), f)
			require.NoError(t, err, f)
			require.Equal(t, 1, report.Lines, f)
			require.Equal(t, 1, report.Mismatches[UnreadableLine], f)
			require.Contains(t, found[0].Detail, fmt.Sprintf("line %d: ", strings.Count(head, "\n")+1), f)
		}
	}
}

// An unreadable line may be a charge's failure: beside it nothing is refunded by the statement
// alone.
func TestNothingIsHealedBesideALineThatCannotBeRead(t *testing.T) {
	for _, bad := range []string{"", "p,charge_failed,r,none,usd,1"} {
		w := newWorld(t)
		w.paid(1)
		again, _ := w.paid(2)
		w.state("again", again, 100)
		if bad != "" {
			w.lines = append(w.lines, bad)
		}
		_, all := w.run()
		m := all[len(all)-1]
		require.Equal(t, Duplicate, m.Class)
		require.Equal(t, bad == "", m.Refundable)
		require.Equal(t, bad != "", strings.Contains(m.Detail, "line that cannot be read"))
	}
}

// If no line can be read, or many cannot, the statement is written another way than its
// format, and nothing is compared.
func TestAFormatThatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.c.Found = func(context.Context, Mismatch) error { t.Error("called for a mismatch"); return nil }
	w.lines = []string{"p,charge,r,none,usd,1", "p,charge,r,1,usd,never"}
	_, err := Run(t.Context(), w.c, w.statement(), CSV)
	require.ErrorContains(t, err, "statement, line 2: amount")
	w.lines = append(w.lines, "p,charge,r,1,usd,1")
	for range maxUnreadable {
		w.lines = append(w.lines, "p,charge,r,none,usd,1")
	}
	_, err = Run(t.Context(), w.c, w.statement(), CSV)
	require.ErrorContains(t, err, "more than 100 lines cannot be read, of which the first is: statement, line 2: amount")
	// A quote that is never closed swallows the lines behind it.
	w.lines = []string{"p,charge,r,1,usd,1", "p,charge,\"r,1,usd,1", "p,charge,r,1,usd,1"}
	_, err = Run(t.Context(), w.c, w.statement(), CSV)
	require.ErrorContains(t, err, `extraneous or missing "`)
}

// Stripe writes created in the requested zone of the report, and created_utc in UTC.
func TestStripesLocalTimes(t *testing.T) {
	m, err := MappingOf("stripe")
	require.NoError(t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	read := func(m *Mapping, head, at string) (time.Time, error) {
		var l Line
		_, err := m.Read(strings.NewReader(head+",balance_transaction_id,currency,gross,reporting_category,source_id\n"+at+",txn_1,usd,1.00,charge,ch_1\n"),
			func(one Line) error { l = one; return nil }, func(string) {})
		return l.At, err
	}
	both, noon := "created,created_utc", "2026-07-01 14:00:00,2026-07-01 12:00:00"
	for _, m := range []*Mapping{m, m.In(berlin)} {
		at, err := read(m, both, noon)
		require.NoError(t, err)
		require.Equal(t, utc("2026-07-01 12:00:00"), at, "--timezone is of --day, and does not change what is in UTC")
	}
	for _, column := range []string{"created", "effective_at"} {
		at, err := read(m.In(berlin), column, "2026-07-01 14:00:00")
		require.NoError(t, err)
		require.Equal(t, utc("2026-07-01 12:00:00"), at)
		_, err = read(m, column, "2026-07-01 14:00:00")
		require.ErrorContains(t, err, "line 1: has no column created_utc or effective_at_utc, so its times are in a zone that it does not name: give it with --timezone")
	}
}

// Adyen writes abbreviations of the account's zone.
func TestAdyensZones(t *testing.T) {
	m, err := MappingOf("adyen")
	require.NoError(t, err)
	head, line, _ := strings.Cut(statements["adyen"], "\n")
	at := func(m *Mapping, when, name string) (string, error) {
		var l Line
		text := strings.Replace(strings.Replace(line, "2026-03-01 12:00:00", when, 1), "CET", name, 1)
		_, err := m.Read(strings.NewReader(head+"\n"+text), func(one Line) error { l = one; return nil }, func(string) {})
		return l.At.Format("01-02 15:04"), err
	}
	in := func(name string) *Mapping {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		return m.In(zone)
	}
	const winter, summer = "2026-01-15 12:00:00", "2026-07-15 12:00:00"
	for _, c := range []struct {
		m                *Mapping
		when, name, want string
	}{
		{m, winter, "CET", "01-15 11:00"},
		{m, winter, "AEDT", "01-15 01:00"},
		{m, summer, "AEST", "07-15 02:00"},
		{m, winter, "SGT", "01-15 04:00"},
		{m, winter, "BRT", "01-15 15:00"},
		{m, winter, "NZDT", "01-14 23:00"},
		{m, summer, "CDT", "07-15 17:00"},
		{m, winter, "EST", "01-15 17:00"},
		{m, winter, "UTC", "01-15 12:00"},
		{in("Europe/Berlin"), winter, "AEDT", "01-15 01:00"}, // the zone of --day
		{in("America/Chicago"), winter, "CST", "01-15 18:00"},
		{in("America/Winnipeg"), winter, "CST", "01-15 18:00"},
		{in("Asia/Shanghai"), winter, "CST", "01-15 04:00"},
		{in("Asia/Kolkata"), winter, "IST", "01-15 06:30"},
		{in("Asia/Jakarta"), winter, "WIB", "01-15 05:00"}, // that the mapping does not have
	} {
		got, err := at(c.m, c.when, c.name)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	for _, c := range []struct {
		m          *Mapping
		name, want string
	}{
		{m, "CST", "the time zone CST may be America/Chicago, America/Mexico_City or Asia/Shanghai: give the account's with --timezone"},
		{m, "IST", "the time zone IST may be"},
		{in("Europe/Berlin"), "CST", "is none of Europe/Berlin"},
		{m, "WIB", `there is no time zone "WIB"`},
		{m, "WIB", "give the account's with --timezone"},
	} {
		_, err := at(c.m, winter, c.name)
		require.ErrorContains(t, err, c.want)
	}
}

// PayPal's codes of fees and adjustments move money of no payment of ours, whichever way;
// those of chargebacks go both ways, too.
func TestPayPalsCodes(t *testing.T) {
	m, err := MappingOf("paypal")
	require.NoError(t, err)
	at := strings.LastIndex(strings.TrimSpace(statements["paypal"]), "\n") + 1
	head, line := statements["paypal"][:at], statements["paypal"][at:]
	fees := []string{"T1108", "T1109", "T1200", "T1203", "T1204"}
	for n := range 14 {
		fees = append(fees, fmt.Sprintf("T01%02d", n))
	}
	check := func(code, side string, want psp.Kind) {
		t.Helper()
		var all []Line
		_, err := m.Read(strings.NewReader(head+strings.Replace(strings.Replace(line, "T0006", code, 1), "CR", side, 1)),
			func(l Line) error { all = append(all, l); return nil }, func(kind string) { t.Errorf("%s is unknown", kind) })
		require.NoError(t, err)
		require.Len(t, all, 1, code)
		require.Equal(t, want, all[0].Kind, code)
	}
	for _, code := range fees {
		check(code, "DR", psp.KindFee)
		check(code, "CR", psp.KindFeeRefund)
	}
	for _, code := range []string{"T1106", "T1201", "T1202", "T1205", "T1207", "T1208"} {
		check(code, "DR", psp.KindDispute)
		check(code, "CR", psp.KindDisputeReversal)
	}
	check("T1114", "CR", psp.KindTransferReversal)
	check("T1115", "CR", psp.KindTransferReversal)
}
