package region

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/homeward-io/homeward/claim"
)

const (
	// MaxRegionName is the longest region name, in characters: one DNS label.
	MaxRegionName = 63
	// MaxRegions is the greatest number of regions. Clouds have some 40; a
	// replica read looks at every home, so the number must stay small.
	MaxRegions = 256
)

// Region is one row of the topology. Status is set by operators and does not depend on
// gossip.
type (
	Region = claim.Region
	Status = claim.RegionStatus
)

// The statuses.
const (
	Active   = claim.RegionActive
	Draining = claim.RegionDraining
	Down     = claim.RegionDown
)

// Topology is the table of regions. It only grows: [Topology.Update] adds an
// operator's new regions, but never removes a name or code, since keys and ids
// that merchants hold contain the codes. It is safe for concurrent use.
type Topology struct {
	updates sync.Mutex // one Update at a time
	table   atomic.Pointer[table]
}

// table is one version of the topology; it is immutable.
type table struct {
	epoch   uint64
	regions []Region // by name
	byName  map[string]Region
	byCode  map[claim.RegionCode]Region
}

// NewTopology checks and copies regions. Names are 1 to [MaxRegionName]
// characters of a–z, 0–9 and '-', codes are not 0, and neither occurs twice.
func NewTopology(regions []Region) (*Topology, error) {
	first, err := newTable(1, regions)
	if err != nil {
		return nil, err
	}
	t := &Topology{}
	t.table.Store(first)
	return t, nil
}

// Update replaces the table by regions, its rows at epoch, after the checks of NewTopology, and
// reports whether that changed any row. Rows older than the present ones change nothing. If a
// region is missing or has another code, it returns an error and the table does not change.
func (t *Topology) Update(epoch uint64, regions []Region) (changed bool, err error) {
	t.updates.Lock()
	defer t.updates.Unlock()
	have := t.table.Load()
	next, err := newTable(epoch, regions)
	if err != nil || epoch < have.epoch {
		return false, err
	}
	for _, r := range have.regions {
		now, ok := next.byName[r.Name]
		if !ok {
			return false, fmt.Errorf("topology: region %s is gone from the table; keys contain its code %d for ever, so put it back", r.Name, r.Code)
		}
		if now.Code != r.Code {
			return false, fmt.Errorf("topology: region %s had code %d and now has %d; keys contain the old one for ever, so put it back", r.Name, r.Code, now.Code)
		}
	}
	t.table.Store(next)
	return !slices.Equal(have.regions, next.regions), nil
}

func newTable(epoch uint64, regions []Region) (*table, error) {
	if len(regions) == 0 {
		return nil, fmt.Errorf("topology: no region; name at least one")
	}
	if len(regions) > MaxRegions {
		return nil, fmt.Errorf("topology: %d regions are more than %d", len(regions), MaxRegions)
	}
	t := &table{
		epoch:   epoch,
		regions: slices.Clone(regions),
		byName:  make(map[string]Region, len(regions)),
		byCode:  make(map[claim.RegionCode]Region, len(regions)),
	}
	for _, r := range regions {
		if !ValidName(r.Name) {
			return nil, fmt.Errorf("topology: %q is not a region name; write 1 to %d characters of a-z, 0-9 and '-'", r.Name, MaxRegionName)
		}
		if r.Code == 0 {
			return nil, fmt.Errorf("topology: region %s has code 0, which is reserved; give it one from 1 to 65535", r.Name)
		}
		if r.Status > Down {
			return nil, fmt.Errorf("topology: region %s has %v, which this version does not have", r.Name, r.Status)
		}
		if _, twice := t.byName[r.Name]; twice {
			return nil, fmt.Errorf("topology: region %s is named twice", r.Name)
		}
		if other, twice := t.byCode[r.Code]; twice {
			return nil, fmt.Errorf("topology: regions %s and %s both have code %d; codes are never shared", other.Name, r.Name, r.Code)
		}
		t.byName[r.Name] = r
		t.byCode[r.Code] = r
	}
	slices.SortFunc(t.regions, func(a, b Region) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}

// ByCode finds a region by its code. A caller that holds a stamped key and gets
// false must fail: the region may be newer than this table.
func (t *Topology) ByCode(code claim.RegionCode) (Region, bool) {
	r, ok := t.table.Load().byCode[code]
	return r, ok
}

// ByName finds a region by its name.
func (t *Topology) ByName(name string) (Region, bool) {
	r, ok := t.table.Load().byName[name]
	return r, ok
}

// Regions returns every region, sorted by name; the caller owns the slice.
func (t *Topology) Regions() []Region { return slices.Clone(t.table.Load().regions) }

// Names returns the name of every region, sorted.
func (t *Topology) Names() []string {
	names := make([]string, 0, len(t.table.Load().regions))
	for _, r := range t.table.Load().regions {
		names = append(names, r.Name)
	}
	return names
}

// Epoch is the version of the table, as the store counts; 1 before the first Update.
func (t *Topology) Epoch() uint64 { return t.table.Load().epoch }

// ValidName reports whether name can be a region's.
func ValidName(name string) bool {
	if len(name) == 0 || len(name) > MaxRegionName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
