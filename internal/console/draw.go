package console

import (
	"fmt"
	"math"
	"slices"

	"github.com/homeward-io/homeward/region/admin"
)

// Dimensions of the map, in its own units, of which a degree has four.
const (
	mapMargin    = 130.0 // around the regions, for their labels
	mapMinWidth  = 520.0
	mapShape     = 2.8 // width by height
	markRadius   = 11.0
	sameSpot     = 34.0 // regions nearer than that would cover each other
	flowBend     = 0.22 // of the way's length
	flowThin     = 1.6
	flowThick    = 7.0
	thinPerSec   = 0.1 // what a line of flowThin carries
	wayStopsAway = markRadius + 6
)

// draw places the regions, bends a line for each flow, and crops the map to them.
func (m *mapView) draw() {
	for i := range m.Regions {
		v := &m.Regions[i]
		at := placeOf(v.Name)
		v.X, v.Y = at.x(), at.y()
		for j := range i { // enough for a few regions of one city
			if other := m.Regions[j]; math.Hypot(v.X-other.X, v.Y-other.Y) < sameSpot {
				v.Y = other.Y + sameSpot
			}
		}
	}
	m.frame()
	for i := range m.Flows {
		m.Flows[i].bend(m.Regions)
	}
}

// frame crops the map to its regions.
func (m *mapView) frame() {
	if len(m.Regions) == 0 {
		m.ViewBox = fmt.Sprintf("0 0 %.0f %.0f", mapWidth, mapHeight)
		return
	}
	left, right, top, bottom := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, v := range m.Regions {
		left, right, top, bottom = min(left, v.X), max(right, v.X), min(top, v.Y), max(bottom, v.Y)
	}
	left, right, top, bottom = left-mapMargin, right+mapMargin, top-mapMargin*0.7, bottom+mapMargin*0.7
	width := min(max(right-left, (bottom-top)*mapShape, mapMinWidth), mapWidth)
	height := min(max(bottom-top, width/mapShape), mapHeight)
	x := min(max((left+right-width)/2, 0), mapWidth-width)
	y := min(max((top+bottom-height)/2, 0), mapHeight-height)
	m.ViewBox = fmt.Sprintf("%.0f %.0f %.0f %.0f", x, y, width, height)
}

// bend draws the flow as an arc, so that both directions are visible. A replica read
// has no flow: it is in the table alone.
func (f *flowView) bend(regions []regionView) {
	at := func(name string) int {
		return slices.IndexFunc(regions, func(v regionView) bool { return v.Name == name })
	}
	i, j := at(f.From), at(f.To)
	if i < 0 || j < 0 || f.Way != admin.WayForward && f.Way != admin.WayDeputy {
		return
	}
	a, b := regions[i], regions[j]
	dx, dy := b.X-a.X, b.Y-a.Y
	length := math.Hypot(dx, dy)
	if length < 2*wayStopsAway {
		return
	}
	// Flows to the west curve north, and flows to the east south.
	cx, cy := (a.X+b.X)/2-dy*flowBend, (a.Y+b.Y)/2+dx*flowBend
	from, to := length1(cx-a.X, cy-a.Y), length1(cx-b.X, cy-b.Y)
	f.Path = fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f",
		a.X+from[0]*wayStopsAway, a.Y+from[1]*wayStopsAway, cx, cy, b.X+to[0]*wayStopsAway, b.Y+to[1]*wayStopsAway)
	f.Width = min(flowThin+math.Log2(1+f.PerSecond/thinPerSec)/2, flowThick)
}

// length1 is a direction.
func length1(x, y float64) [2]float64 {
	n := math.Hypot(x, y)
	return [2]float64{x / n, y / n}
}
