package region

import (
	"slices"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/claim"
)

const (
	us = "us-east1"
	eu = "europe-west1"
	as = "asia-northeast1"
)

func threeRegions(t *testing.T) *Topology {
	t.Helper()
	topology, err := NewTopology([]Region{{Name: us, Code: 1}, {Name: eu, Code: 2}, {Name: as, Code: 3}})
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestTopology(t *testing.T) {
	topology := threeRegions(t)
	for code, name := range map[claim.RegionCode]string{1: us, 2: eu, 3: as} {
		byCode, ok := topology.ByCode(code)
		byName, ok2 := topology.ByName(name)
		if !ok || !ok2 || byCode != byName || byCode.Name != name || byCode.Code != code {
			t.Errorf("code %d: %v %v, name %s: %v %v", code, byCode, ok, name, byName, ok2)
		}
	}
	if _, ok := topology.ByCode(4); ok {
		t.Error("code 4 was found")
	}
	if _, ok := topology.ByName("mars"); ok {
		t.Error("mars was found")
	}
	regions := topology.Regions()
	if len(regions) != 3 || regions[0].Name != as || regions[2].Name != us {
		t.Errorf("regions %v are not sorted by name", regions)
	}
	regions[0].Name = "scribbled"
	if topology.Regions()[0].Name != as {
		t.Error("Regions gave its own slice away")
	}
}

func TestTopologyRefuses(t *testing.T) {
	long := strings.Repeat("a", MaxRegionName+1)
	tooMany := make([]Region, MaxRegions+1)
	for _, tc := range []struct {
		regions []Region
		want    string
	}{
		{nil, "no region"},
		{tooMany, "more than 256"},
		{[]Region{{Name: "", Code: 1}}, "not a region name"},
		{[]Region{{Name: "US", Code: 1}}, "not a region name"},
		{[]Region{{Name: "a.b", Code: 1}}, "not a region name"},
		{[]Region{{Name: long, Code: 1}}, "not a region name"},
		{[]Region{{Name: us}}, "reserved"},
		{[]Region{{Name: us, Code: 1}, {Name: us, Code: 2}}, "named twice"},
		{[]Region{{Name: us, Code: 1}, {Name: eu, Code: 1}}, "both have code 1"},
		{[]Region{{Name: us, Code: 1, Status: 9}}, "does not have"},
	} {
		_, err := NewTopology(tc.regions)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60v: %v, want one line with %q", tc.regions, err, tc.want)
		}
	}
	if _, err := NewTopology([]Region{{Name: long[1:], Code: 65535, Status: Down}}); err != nil {
		t.Errorf("the longest name: %v", err)
	}
}

func TestTopologyGrows(t *testing.T) {
	topology := threeRegions(t)
	three := topology.Regions()
	update := func(want bool, regions ...Region) {
		t.Helper()
		epoch := topology.Epoch()
		if want {
			epoch++
		}
		changed, err := topology.Update(epoch, regions)
		if err != nil || changed != want {
			t.Errorf("changed %v, %v, want %v", changed, err, want)
		}
	}
	refused := func(say string, regions ...Region) {
		t.Helper()
		before, epoch := topology.Regions(), topology.Epoch()
		if _, err := topology.Update(epoch+1, regions); err == nil || !strings.Contains(err.Error(), say) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %q", err, say)
		}
		if !slices.Equal(topology.Regions(), before) || topology.Epoch() != epoch {
			t.Errorf("a refused update left %v", topology.Regions())
		}
	}
	// Readers see one version or another, whole.
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, r := range topology.Regions() {
				if byCode, ok := topology.ByCode(r.Code); !ok || byCode.Name != r.Name {
					t.Errorf("code %d is %v, %v", r.Code, byCode, ok)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	if topology.Epoch() != 1 {
		t.Errorf("epoch %d at first", topology.Epoch())
	}
	update(false, three...)
	update(true, append(three, Region{Name: "us-west1", Code: 9})...)
	if r, ok := topology.ByCode(9); !ok || r.Name != "us-west1" || topology.Epoch() != 2 {
		t.Errorf("the new region is %v, %v at epoch %d", r, ok, topology.Epoch())
	}
	four := topology.Regions()
	refused("gone", three...)
	moved := slices.Clone(four)
	moved[0].Code = 77
	refused("now has 77", moved...)
	refused("reserved", append(four, Region{Name: "mars"})...)
	four[1].Status = Draining
	update(true, four...)
	if r, _ := topology.ByName(four[1].Name); r.Status != Draining || topology.Epoch() != 3 {
		t.Errorf("%v at epoch %d", r, topology.Epoch())
	}
	close(stop)
	<-done
}
