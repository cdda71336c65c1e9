package drill

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"ms": ms, "errors": errorText}).Parse(pageText))

// The picture's size and where its charts are, in the units of its view box.
const (
	pictureWidth = 960
	chartLeft    = 56
	chartRight   = 16
	chartHeight  = 120
	chartGap     = 46
	chartTop     = 38
	// ticks is about how many times are written below the charts.
	ticks = 12
)

// picture is the timeline, ready to be drawn.
type picture struct {
	Width, Height int
	Left, Right   float64
	Bottom        float64
	Shades        []shade
	Charts        []chart
	Ticks         []tick
}

// shade is a phase behind the charts.
type shade struct {
	X, Width float64
	Name     string
}

// chart is one curve over time. Its area is closed along its foot.
type chart struct {
	Title, Top, Class string
	Y, Foot           float64
	Line, Area        string
}

type tick struct {
	X     float64
	Label string
}

// HTML writes the report as one page that needs nothing else.
func (r *Report) HTML(w io.Writer) error {
	return page.Execute(w, map[string]any{"R": r, "Title": r.title(), "Rows": r.Verdict.Figures(), "Sentence": r.Verdict.Sentence(), "OK": r.Verdict.OK(), "Picture": r.picture()})
}

func (r *Report) picture() picture {
	span := float64(max(1, len(r.Seconds)))
	x := func(second float64) float64 {
		return chartLeft + min(second, span)/span*(pictureWidth-chartLeft-chartRight)
	}
	p := picture{Width: pictureWidth, Left: chartLeft, Right: pictureWidth - chartRight}
	for _, phase := range r.Verdict.Phases {
		p.Shades = append(p.Shades, shade{x(phase.From), x(phase.To) - x(phase.From), phase.Name})
	}
	top := float64(chartTop)
	for _, c := range []struct {
		title, class string
		spell        func(float64) string
		value        func(Second) float64
	}{
		{"answered per second", "good", number, func(s Second) float64 { return float64(s.Answered) }},
		{"requests per second that had to be sent again", "bad", number, func(s Second) float64 { return float64(s.Failed) }},
		{"p99 of the calls that were to leave then, retries included", "slow", ms, func(s Second) float64 { return s.P99 }},
	} {
		highest := 0.0
		for _, s := range r.Seconds {
			highest = max(highest, c.value(s))
		}
		highest = roundUp(highest)
		foot := top + chartHeight
		var points []string
		for i, s := range r.Seconds {
			y := foot - c.value(s)/highest*chartHeight
			// A step: the value is that of the whole second.
			points = append(points, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(float64(i)), y, x(float64(i+1)), y))
		}
		line := strings.Join(points, " ")
		p.Charts = append(p.Charts, chart{
			Title: c.title, Top: c.spell(highest), Class: c.class, Y: top, Foot: foot, Line: line,
			Area: fmt.Sprintf("%.1f,%.1f %s %.1f,%.1f", x(0), foot, line, x(span), foot),
		})
		top = foot + chartGap
	}
	p.Bottom = top - chartGap
	p.Height = int(p.Bottom) + chartGap
	for step, at := max(1, roundUp(span/ticks)), 0.0; at <= span; at += step {
		p.Ticks = append(p.Ticks, tick{x(at), fmt.Sprintf("%g s", at)})
	}
	return p
}

func number(v float64) string { return fmt.Sprintf("%g", v) }

// roundUp returns 1, 2 or 5 times a power of ten, at least v and 1.
func roundUp(v float64) float64 {
	if v <= 1 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*unit >= v {
			return m * unit
		}
	}
	return v
}
