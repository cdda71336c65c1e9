// Package model computes from the costs of requests how large a deployment must be.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Costs are what was measured, of one charge and one replay.
type Costs struct {
	Date    string `json:"date"`
	Commit  string `json:"commit"`
	Machine string `json:"machine"`

	Databases []Database `json:"databases"`

	// Bytes that a charge leaves on PostgreSQL, indexes included: WAL on its way, Record
	// until the key is free again, Audit until it is deleted, Books for ever.
	WAL    float64 `json:"wal_bytes_per_charge"`
	Record float64 `json:"record_bytes_per_charge"`
	Audit  float64 `json:"audit_bytes_per_charge"`
	Books  float64 `json:"books_bytes_per_charge"`
}

// Database is the CPU that requests take on one, in microseconds of one core.
type Database struct {
	Name           string  `json:"name"` // as in "PostgreSQL 15.18"
	NodeCharge     float64 `json:"node_us_per_charge"`
	NodeReplay     float64 `json:"node_us_per_replay"`
	DatabaseCharge float64 `json:"database_us_per_charge"`
	DatabaseReplay float64 `json:"database_us_per_replay"`
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
	return costsTitle + "\n[SIZING.md](SIZING.md) is made from them.\n\n" + openFence + string(text) + closeFence + "\n"
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
	if len(c.Databases) == 0 {
		return c, errors.New("its block of costs has no database")
	}
	return c, nil
}
