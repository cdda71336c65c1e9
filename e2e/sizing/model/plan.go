package model

import (
	"errors"
	"math"
)

// Assumptions are what is not measured here. All of them are for a reader to change.
type Assumptions struct {
	// Replays is the share of requests that are retries of finished keys, 0 to 1.
	Replays float64
	// Busy is the most of all cores that may be busy with the load that a lost region
	// leaves to the others; the rest is for bursts, and for retries when it is lost.
	Busy float64
	// NodeCores and DatabaseCores are those of one machine.
	NodeCores, DatabaseCores int
	// LeastNodes and LeastDatabases are machines that a region has at least: one may be
	// out of service, and a database needs a majority of three.
	LeastNodes, LeastDatabases int
	// AverageLoad is the average over a day over the peak: what is stored follows it.
	AverageLoad float64
	// RecordBytes are a charge's until its key is free again, after RecordHours.
	RecordBytes, RecordHours float64
	// AuditDays is how long audit is kept, and BooksYears after how long the books are
	// looked at: they are kept for ever.
	AuditDays, BooksYears float64
	// Copies is how often the database stores each byte. One more is in each other
	// region, for reads there.
	Copies int
	// Prices.
	Prices Prices
}

// Prices are of one currency.
type Prices struct {
	NodeCoreHour, DatabaseCoreHour float64
	StorageMonth                   float64 // a gigabyte
	TrafficGB                      float64 // between regions
	// Date and Source say whence they are.
	Date, Source string
}

// DefaultAssumptions are those of docs/SIZING.md.
func DefaultAssumptions() Assumptions {
	return Assumptions{
		Replays: 0.1, Busy: 0.6, NodeCores: 8, DatabaseCores: 16, LeastNodes: 2, LeastDatabases: 3, AverageLoad: 0.5,
		// 24 h of answers and 24 h more of "expired", and an hour until housekeeping.
		RecordBytes: 2200, RecordHours: 49,
		AuditDays: 400, BooksYears: 5, Copies: 3,
		Prices: Prices{
			NodeCoreHour: 0.045, DatabaseCoreHour: 0.055, StorageMonth: 0.10, TrafficGB: 0.02,
			Date: "2026-11", Source: "rounded, in USD, of the kind that large clouds list for machines on demand; without support, licences and discounts",
		},
	}
}

// Validate refuses what no plan can be made of.
func (a Assumptions) Validate() error {
	switch {
	case a.Replays < 0 || a.Replays > 1:
		return errors.New("the share of replays must be from 0 to 1")
	case a.Busy <= 0 || a.Busy > 1:
		return errors.New("what may be busy must be above 0 and at most 1")
	case a.NodeCores < 1 || a.DatabaseCores < 1 || a.Copies < 1:
		return errors.New("machines have at least one core, and data at least one copy")
	case a.AverageLoad <= 0 || a.AverageLoad > 1:
		return errors.New("the average is above 0 and at most the peak")
	}
	return nil
}

// Demand is the load of a deployment.
type Demand struct {
	Rate    float64 // requests per second of all regions at the peak
	Regions int
}

// Plan is what it takes.
type Plan struct {
	Demand
	// Machines of one region, and how much of them is busy at the peak, and when another
	// region is lost; without another one that never happens, and is as the peak.
	Nodes, Databases               int
	NodeBusy, NodeBusyLost         float64
	DatabaseBusy, DatabaseBusyLost float64
	// Gigabytes of all regions, with all copies.
	Records, Audit, Books float64
	// Per month.
	NodeMoney, DatabaseMoney, StorageMoney, TrafficMoney float64
}

// Money is all of it, per month.
func (p Plan) Money() float64 {
	return p.NodeMoney + p.DatabaseMoney + p.StorageMoney + p.TrafficMoney
}

// Cores of one region.
func (p Plan) Cores(a Assumptions) (nodes, databases int) {
	return p.Nodes * a.NodeCores, p.Databases * a.DatabaseCores
}

// busy is how many cores a rate of requests keeps busy.
func busy(rate, replays, charge, replay float64) float64 {
	return rate * ((1-replays)*charge + replays*replay) / 1e6
}

// survivors are the regions that carry the load once one is lost.
func (d Demand) survivors() float64 { return float64(max(1, d.Regions-1)) }

const (
	hoursPerMonth = 730
	secondsPerDay = 86400
	gigabyte      = 1e9
)

// NewPlan applies the formula of docs/SIZING.md.
func NewPlan(c Costs, a Assumptions, d Demand) Plan {
	p := Plan{Demand: d}
	even, lost := d.Rate/float64(d.Regions), d.Rate/d.survivors()
	nodeBusy, nodeLost := busy(even, a.Replays, c.NodeCharge, c.NodeReplay), busy(lost, a.Replays, c.NodeCharge, c.NodeReplay)
	dbBusy, dbLost := busy(even, a.Replays, c.DatabaseCharge, c.DatabaseReplay)+c.DatabaseIdle, busy(lost, a.Replays, c.DatabaseCharge, c.DatabaseReplay)+c.DatabaseIdle
	p.Nodes = max(a.LeastNodes, int(math.Ceil(nodeLost/a.Busy/float64(a.NodeCores))))
	p.Databases = max(a.LeastDatabases, int(math.Ceil(dbLost/a.Busy/float64(a.DatabaseCores))))
	nodeCores, dbCores := p.Cores(a)
	p.NodeBusy, p.NodeBusyLost = nodeBusy/float64(nodeCores), nodeLost/float64(nodeCores)
	p.DatabaseBusy, p.DatabaseBusyLost = dbBusy/float64(dbCores), dbLost/float64(dbCores)

	charges := d.Rate * a.AverageLoad * (1 - a.Replays) // per second
	copies := float64(a.Copies + d.Regions - 1)
	p.Records = charges * a.RecordHours * 3600 * a.RecordBytes * copies / gigabyte
	p.Audit = charges * a.AuditDays * secondsPerDay * c.Audit * copies / gigabyte
	p.Books = charges * a.BooksYears * 365 * secondsPerDay * c.Books * copies / gigabyte

	regions := float64(d.Regions)
	p.NodeMoney = regions * float64(nodeCores) * a.Prices.NodeCoreHour * hoursPerMonth
	p.DatabaseMoney = regions * float64(dbCores) * a.Prices.DatabaseCoreHour * hoursPerMonth
	p.StorageMoney = (p.Records + p.Audit + p.Books) * a.Prices.StorageMonth
	p.TrafficMoney = charges * c.WAL * (regions - 1) * 3600 * hoursPerMonth / gigabyte * a.Prices.TrafficGB
	return p
}
