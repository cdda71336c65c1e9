// Package model tells from what requests cost how large a deployment must be, and
// simulates it at its peak and without one of its regions.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Costs are what was measured, of one charge and one replay. The zero value of a figure
// means that it was not.
type Costs struct {
	Date     string `json:"date"`
	Commit   string `json:"commit"`
	Machine  string `json:"machine"`
	Database string `json:"database"` // as in "PostgreSQL 15.18"

	// CPU, in microseconds of one core.
	NodeCharge     float64 `json:"node_us_per_charge"`
	NodeReplay     float64 `json:"node_us_per_replay"`
	DatabaseCharge float64 `json:"database_us_per_charge"`
	DatabaseReplay float64 `json:"database_us_per_replay"`
	// DatabaseIdle is the load of idle nodes, in cores.
	DatabaseIdle float64 `json:"database_idle_cores"`

	// Bytes that a charge leaves, indexes included: WAL on its way, Record until the key
	// is free again, Audit until it is deleted, Books for ever.
	WAL    float64 `json:"wal_bytes_per_charge"`
	Record float64 `json:"record_bytes_per_charge"`
	Audit  float64 `json:"audit_bytes_per_charge"`
	Books  float64 `json:"books_bytes_per_charge"`
}

const (
	openFence  = "```json\n"
	closeFence = "\n```"
	// costsTitle is the heading of the block in a page.
	costsTitle = "## Costs\n"
)

// Block is a part of a page that ReadCosts finds again.
func (c Costs) Block() string {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		panic(err) // numbers that are none: a bug of whoever measured
	}
	return costsTitle + "\nWhat [SIZING.md](SIZING.md) is made from.\n\n" + openFence + string(text) + closeFence + "\n"
}

// ReadCosts finds the block of a page.
func ReadCosts(page string) (c Costs, err error) {
	_, rest, ok := strings.Cut(page, costsTitle)
	if ok {
		_, rest, ok = strings.Cut(rest, openFence)
	}
	text, _, closed := strings.Cut(rest, closeFence)
	if !ok || !closed {
		return c, errors.New("it has no block of costs; write it again with make bench SUITE=report")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("its block of costs cannot be read: %w", err)
	}
	return c, nil
}
