package claim

import (
	"context"
	"fmt"
)

// Region is one row of the table of regions.
type Region struct {
	Name string
	// Code stands for the region in keys and object ids, for ever.
	Code   RegionCode
	Status RegionStatus
}

// RegionStatus is what operators say of a region. It decides one thing only: whether a key
// that has no home may get its home there. The numbers are stored.
type RegionStatus uint8

const (
	// RegionActive: the region takes new homes.
	RegionActive RegionStatus = iota
	// RegionDraining: it takes none, and its nodes ask for no traffic.
	RegionDraining
	// RegionDown: as draining, and the others act as its deputies.
	RegionDown
)

func (s RegionStatus) String() string {
	switch s {
	case RegionActive:
		return "active"
	case RegionDraining:
		return "draining"
	case RegionDown:
		return "down"
	default:
		return fmt.Sprintf("status(%d)", uint8(s))
	}
}

// MarshalText writes the status as people do.
func (s RegionStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Regions is the table of regions where it is kept. It is safe for concurrent use.
type Regions interface {
	// Regions reads all rows, and the version of the table, from 1.
	Regions(ctx context.Context) (regions []Region, epoch uint64, err error)
	// SetRegionStatus changes one row, and returns the version in which it is so: the
	// present one where it was so already. No step that begins after it has returned gives
	// a key its home in a region that is not active.
	SetRegionStatus(ctx context.Context, name string, status RegionStatus) (epoch uint64, err error)
}
