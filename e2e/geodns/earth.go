package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// place is somewhere on Earth, in degrees.
type place struct {
	name     string
	lat, lon float64
}

// sites are the places of a cluster's default regions: the provider's page "Regions and zones"
// names the places.
var sites = map[string]place{
	"us-east1":        {"Moncks Corner, South Carolina", 33.2, -80.0},
	"europe-west1":    {"St. Ghislain, Belgium", 50.4, 3.8},
	"asia-northeast1": {"Tokyo", 35.7, 139.7},
}

// customer is a place from which merchants ask.
type customer struct {
	place
	// subnet is the client subnet that their resolver sends. 198.18.0.0/15 is kept for benchmarks
	// (RFC 2544), so it belongs to no network.
	subnet netip.Prefix
}

var customers = []customer{
	{place{"São Paulo", -23.6, -46.6}, netip.MustParsePrefix("198.18.1.0/24")},
	{place{"Denver", 39.7, -105.0}, netip.MustParsePrefix("198.18.2.0/24")},
	{place{"Frankfurt", 50.1, 8.7}, netip.MustParsePrefix("198.18.3.0/24")},
	{place{"Nairobi", -1.3, 36.8}, netip.MustParsePrefix("198.18.4.0/24")},
	{place{"Sydney", -33.9, 151.2}, netip.MustParsePrefix("198.18.5.0/24")},
}

// accuracy is how far a place may be off, in kilometres. PowerDNS takes a place without
// it for 0,0.
const accuracy = 10

// writeEarth writes the database of the addresses' places: the customers', and the regions' own, as
// the nearest is found by both. PowerDNS takes coordinates from databases of the type
// GeoLite2-City.
func writeEarth(path string, regions []site) error {
	tree, err := mmdbwriter.New(mmdbwriter.Options{
		DatabaseType: "GeoLite2-City", Description: map[string]string{"en": "places of a cluster on one machine"},
		RecordSize: 24, IncludeReservedNetworks: true, // all of them are
	})
	if err != nil {
		return fmt.Errorf("database of places: %w", err)
	}
	put := func(subnet netip.Prefix, p place) error {
		return tree.Insert(&net.IPNet{IP: subnet.Addr().AsSlice(), Mask: net.CIDRMask(subnet.Bits(), subnet.Addr().BitLen())}, mmdbtype.Map{
			"city": mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(p.name)}},
			"location": mmdbtype.Map{
				"latitude": mmdbtype.Float64(p.lat), "longitude": mmdbtype.Float64(p.lon), "accuracy_radius": mmdbtype.Uint16(accuracy),
			},
		})
	}
	for _, c := range customers {
		if err := put(c.subnet, c.place); err != nil {
			return fmt.Errorf("database of places: %s: %w", c.name, err)
		}
	}
	for _, r := range regions {
		if err := put(netip.PrefixFrom(r.addr, r.addr.BitLen()), r.place); err != nil {
			return fmt.Errorf("database of places: %s: %w", r.region, err)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("database of places: %w", err)
	}
	if _, err := tree.WriteTo(f); err != nil {
		_ = f.Close() // the first error has more detail
		return fmt.Errorf("database of places: %w", err)
	}
	return f.Close()
}

// site is a region at its public address.
type site struct {
	place
	region string
	addr   netip.Addr
}

// sitesOf gives the regions addresses of loopback, 127.0.1.1, 127.0.2.1 and so on.
func sitesOf(regions []string) ([]site, error) {
	var all []site
	for i, r := range regions {
		p, ok := sites[r]
		if !ok {
			return nil, fmt.Errorf("the location of %s is unknown; start the cluster with its own regions: make cluster", r)
		}
		all = append(all, site{p, r, netip.AddrFrom4([4]byte{127, 0, byte(i + 1), 1})})
	}
	return all, nil
}
