package monitoring

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Dashboard is a page of Grafana.
type Dashboard struct {
	// Name is the name of the file, without .json, and the end of the page's uid.
	Name, Title, Description string
	// Variables are labels with values that the reader chooses.
	Variables []Variable
	Rows      []Row
}

// Variable is a label with a value that the reader chooses.
type Variable struct {
	Label string
	// Metric has it.
	Metric string
	// One: a single value. Else several, all at first.
	One bool
}

// Row is a heading with panels beside each other.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel shows queries.
type Panel struct {
	Title, Help string
	// Unit is Grafana's: s, percentunit, reqps, short, bytes.
	Unit    string
	Queries []Query
	// Single: the newest value in large letters, and red above 0 where Bad.
	Single, Bad bool
	// Bound draws a red line; 0 draws none.
	Bound float64
}

// Query is a PromQL expression, with the legend of its series.
type Query struct{ Expr, Legend string }

// Exprs returns all expressions of the dashboard.
func (d *Dashboard) Exprs() (all []string) {
	for _, r := range d.Rows {
		for _, p := range r.Panels {
			for _, q := range p.Queries {
				all = append(all, q.Expr)
			}
		}
	}
	return all
}

// panelHeight and pageWidth are in units of Grafana's grid: its pages are 24 wide.
const (
	panelHeight  = 8
	singleHeight = 4
	pageWidth    = 24
)

type object = map[string]any

// JSON is the dashboard as Grafana imports it.
func (d *Dashboard) JSON() ([]byte, error) {
	var panels []object
	id, y := 0, 0
	next := func() int { id++; return id }
	for _, row := range d.Rows {
		panels = append(panels, object{"id": next(), "type": "row", "title": row.Title, "collapsed": false, "gridPos": object{"h": 1, "w": pageWidth, "x": 0, "y": y}, "panels": []object{}})
		y++
		width, height := pageWidth/len(row.Panels), panelHeight
		if !slices.ContainsFunc(row.Panels, func(p Panel) bool { return !p.Single }) {
			height = singleHeight
		}
		for i, p := range row.Panels {
			o := p.object()
			o["id"] = next()
			o["gridPos"] = object{"h": height, "w": width, "x": i * width, "y": y}
			panels = append(panels, o)
		}
		y += height
	}
	text, err := json.MarshalIndent(object{
		"uid": "homeward-" + d.Name, "title": "Homeward: " + d.Title, "description": d.Description, "tags": []string{"homeward"},
		"schemaVersion": 39, "editable": true, "refresh": "30s", "time": object{"from": "now-3h", "to": "now"},
		"templating": object{"list": d.variables()}, "panels": panels,
	}, "", "  ")
	return append(text, '\n'), err
}

func (d *Dashboard) variables() []object {
	list := []object{{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}}
	for _, v := range d.Variables {
		query := fmt.Sprintf("label_values(%s, %s)", v.Metric, v.Label)
		o := object{
			"name": v.Label, "type": "query", "label": strings.TrimPrefix(v.Label, "homeward_"), "refresh": 2, "sort": 1,
			"datasource": source(), "definition": query, "query": object{"query": query, "refId": v.Label},
		}
		if !v.One {
			o["multi"], o["includeAll"], o["allValue"] = true, true, ".*"
			o["current"] = object{"text": "All", "value": "$__all"}
		}
		list = append(list, o)
	}
	return list
}

func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

func (p *Panel) object() object {
	var targets []object
	for i, q := range p.Queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "expr": q.Expr, "legendFormat": q.Legend, "exemplar": true, "datasource": source()})
	}
	field := object{"unit": p.Unit, "min": 0}
	kind, options := "timeseries", object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	switch {
	case p.Single:
		kind, options = "stat", object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "value", "graphMode": "area"}
		delete(field, "min")
		field["thresholds"] = thresholds(p.Bad, 0)
	case p.Bound > 0:
		field["thresholds"] = thresholds(true, p.Bound)
		field["custom"] = object{"thresholdsStyle": object{"mode": "line"}}
	}
	return object{
		"type": kind, "title": p.Title, "description": p.Help, "datasource": source(), "targets": targets,
		"fieldConfig": object{"defaults": field, "overrides": []object{}}, "options": options,
	}
}

// thresholds are green, and red above bound if bad.
func thresholds(bad bool, bound float64) object {
	steps := []object{{"color": "green", "value": nil}}
	if bad {
		steps = append(steps, object{"color": "red", "value": max(bound, 0.000001)})
	}
	return object{"mode": "absolute", "steps": steps}
}
