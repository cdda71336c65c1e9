package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Region is one row of the table of regions.
type Region struct {
	Name string
	// Code identifies the region in keys and object ids, for ever.
	Code   RegionCode
	Status RegionStatus
}

// RegionStatus is a region's status, set by operators. It decides only whether a key
// without a home may get its home there. The numbers are stored.
type RegionStatus uint8

const (
	// RegionActive: the region takes new homes.
	RegionActive RegionStatus = iota
	// RegionDraining: it takes none, and its nodes ask for no traffic.
	RegionDraining
	// RegionDown: as draining, and the other regions act as its deputies.
	RegionDown
)

var regionStatuses = []string{"active", "draining", "down"}

func (s RegionStatus) String() string {
	if int(s) < len(regionStatuses) {
		return regionStatuses[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// MarshalText returns the status as text: "active", "draining" or "down".
func (s RegionStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (s *RegionStatus) UnmarshalText(text []byte) error {
	at := slices.Index(regionStatuses, string(text))
	if at < 0 {
		return fmt.Errorf("%q is not a status of this version; it has %s", text, strings.Join(regionStatuses, ", "))
	}
	*s = RegionStatus(at)
	return nil
}

// Regions stores the table of regions. It is safe for concurrent use.
type Regions interface {
	// Regions reads all rows and the version of the table, which starts at 1.
	Regions(ctx context.Context) (regions []Region, epoch uint64, err error)
	// SetRegionStatus sets the status of one region and returns the table's version that
	// has it: the present one if nothing changed. No step that begins after it returns
	// gives a key its home in a region that is not active.
	SetRegionStatus(ctx context.Context, name string, status RegionStatus) (epoch uint64, err error)
}
