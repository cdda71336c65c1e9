package console

import (
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/region/admin"
)

// funcs are the formatting functions of templates.
var funcs = template.FuncMap{
	"rate": rateText, "took": tookText, "clock": clockText, "stamp": stampText, "ago": agoText, "number": numberOf,
	"outcome": outcomeOf, "way": wayText, "keyURL": keyURL, "list": func(all []string) string { return strings.Join(all, ", ") },
	"money": moneyText, "short": shortText, "words": wordsOf, "rows": rowsOf,
}

// rateText formats a rate with two digits.
func rateText(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 10:
		return strconv.FormatFloat(math.Round(perSecond*10)/10, 'f', -1, 64)
	default:
		return numberText(uint64(math.Round(perSecond)))
	}
}

// numberText groups digits by thousands.
func numberText[N ~int | ~int64 | ~uint64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + " " + text[i:] // a narrow no-break space
	}
	return text
}

// numberOf is numberText of any integer of a template.
func numberOf(v any) (string, error) {
	switch n := v.(type) {
	case int:
		return numberText(n), nil
	case int64:
		return numberText(n), nil
	case uint64:
		return numberText(n), nil
	case uint32:
		return numberText(uint64(n)), nil
	default:
		return "", fmt.Errorf("console: %T is not a number", v)
	}
}

func tookText(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}

func clockText(t time.Time) string { return t.UTC().Format("15:04:05") }

func stampText(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// agoText formats how long before now t was, in one unit or two.
func agoText(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d d", int(d.Hours())/24)
	}
}

// outcome is the CSS class and the text for an answer.
type outcome struct{ Class, Text string }

func outcomeOf(a admin.Arrival) outcome {
	status := strconv.Itoa(a.Status)
	switch {
	case a.Status >= http.StatusInternalServerError:
		return outcome{"bad", status + " " + words(a.Code)}
	case a.Replayed:
		return outcome{"same", status + " replayed"}
	case a.Status >= http.StatusBadRequest:
		return outcome{"no", status + " " + words(strings.TrimPrefix(a.Code, "idempotency_key_"))}
	default:
		return outcome{"yes", status + " done"}
	}
}

func words(code string) string { return strings.ReplaceAll(code, "_", " ") }

// wordsOf is words of any string type of a template.
func wordsOf(v any) string { return words(fmt.Sprint(v)) }

// rowsOf is the argument of the template of rows.
func rowsOf(p *page, rows []rowView, parked bool) any {
	return struct {
		Page   *page
		Rows   []rowView
		Parked bool
	}{p, rows, parked}
}

// wayText describes the route of a request.
func wayText(a admin.Entered) string {
	switch a.Way {
	case admin.WayForward:
		return "forwarded to " + a.Home
	case admin.WayReplica:
		return "replica of " + a.Home
	case admin.WayDeputy:
		return "deputy for " + a.Home
	case admin.WayUnrouted:
		return "not routed"
	default:
		return "at home"
	}
}

// keyURL is the URL of a key's page.
func keyURL(tenant, key string) string {
	return "/key?" + url.Values{"tenant": {tenant}, "q": {key}}.Encode()
}

// moneyText formats an amount in minor units.
func moneyText(amount int64, currency string) string {
	return numberText(amount) + " " + currency
}

// shortText cuts a long name in its middle.
func shortText(text string) string {
	const most = 28
	if len(text) <= most {
		return text
	}
	return text[:most/2] + "…" + text[len(text)-most/2+1:]
}
