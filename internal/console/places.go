package console

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
)

// place is where something is on the map, in degrees.
type place struct{ lat, lon float64 }

// places are the locations of the large clouds' regions, as their owners publish them,
// to a degree, which is the map's resolution.
var places = map[string]place{
	// Google Cloud, "Regions and zones".
	"africa-south1": {-26, 28}, "asia-east1": {24, 120.5}, "asia-east2": {22.3, 114.2}, "asia-northeast1": {35.7, 139.7},
	"asia-northeast2": {34.7, 135.5}, "asia-northeast3": {37.6, 127}, "asia-south1": {19, 73}, "asia-south2": {28.6, 77.2},
	"asia-southeast1": {1.3, 103.8}, "asia-southeast2": {-6.2, 106.8}, "australia-southeast1": {-33.9, 151.2},
	"australia-southeast2": {-37.8, 145}, "europe-central2": {52.2, 21}, "europe-north1": {60.6, 27.2}, "europe-southwest1": {40.4, -3.7},
	"europe-west1": {50.4, 3.8}, "europe-west2": {51.5, -0.1}, "europe-west3": {50.1, 8.7}, "europe-west4": {53.4, 6.8},
	"europe-west6": {47.4, 8.5}, "europe-west8": {45.5, 9.2}, "europe-west9": {48.9, 2.4}, "europe-west10": {52.5, 13.4},
	"europe-west12": {45.1, 7.7}, "me-central1": {25.3, 51.5}, "me-central2": {26.4, 50.1}, "me-west1": {32.1, 34.8},
	"northamerica-northeast1": {45.5, -73.6}, "northamerica-northeast2": {43.7, -79.4}, "southamerica-east1": {-23.5, -46.6},
	"southamerica-west1": {-33.4, -70.7}, "us-central1": {41.3, -95.9}, "us-east1": {33.2, -80}, "us-east4": {39, -77.5},
	"us-east5": {40, -83}, "us-south1": {32.8, -96.8}, "us-west1": {45.6, -121.2}, "us-west2": {34, -118.2}, "us-west3": {40.8, -111.9},
	"us-west4": {36.2, -115.1},
	// AWS, "AWS Regions".
	"us-east-1": {38.9, -77.4}, "us-east-2": {40, -83}, "us-west-1": {37.4, -122}, "us-west-2": {45.8, -119.7}, "ca-central-1": {45.5, -73.6},
	"ca-west-1": {51, -114.1}, "sa-east-1": {-23.5, -46.6}, "eu-west-1": {53.3, -6.3}, "eu-west-2": {51.5, -0.1}, "eu-west-3": {48.9, 2.4},
	"eu-central-1": {50.1, 8.7}, "eu-central-2": {47.4, 8.5}, "eu-north-1": {59.3, 18.1}, "eu-south-1": {45.5, 9.2}, "eu-south-2": {41.6, -0.9},
	"af-south-1": {-33.9, 18.4}, "me-south-1": {26.1, 50.6}, "me-central-1": {24.5, 54.4}, "il-central-1": {32.1, 34.8},
	"ap-south-1": {19, 73}, "ap-south-2": {17.4, 78.5}, "ap-east-1": {22.3, 114.2}, "ap-northeast-1": {35.7, 139.7},
	"ap-northeast-2": {37.6, 127}, "ap-northeast-3": {34.7, 135.5}, "ap-southeast-1": {1.3, 103.8}, "ap-southeast-2": {-33.9, 151.2},
	"ap-southeast-3": {-6.2, 106.8}, "ap-southeast-4": {-37.8, 145},
	// Azure, "Azure regions list".
	"eastus": {37.4, -79.8}, "eastus2": {36.7, -78.9}, "centralus": {41.6, -93.6}, "westus": {37.8, -122.4}, "westus2": {47.2, -119.9},
	"westus3": {33.4, -112.1}, "northeurope": {53.3, -6.3}, "westeurope": {52.4, 4.9}, "uksouth": {51.5, -0.1}, "francecentral": {46.4, 2.4},
	"germanywestcentral": {50.1, 8.7}, "swedencentral": {60.7, 17.1}, "switzerlandnorth": {47.5, 8.5}, "japaneast": {35.7, 139.8},
	"japanwest": {34.7, 135.5}, "koreacentral": {37.6, 127}, "southeastasia": {1.3, 103.8}, "eastasia": {22.3, 114.2},
	"australiaeast": {-33.9, 151.2}, "brazilsouth": {-23.5, -46.6}, "centralindia": {18.6, 73.9}, "southafricanorth": {-25.7, 28.2},
	"canadacentral": {43.7, -79.4}, "uaenorth": {25.3, 55.3},
}

// placeOf returns where a region is drawn. One with an unknown name gets a fixed place
// of its own in the southern ocean.
func placeOf(region string) place {
	if p, ok := places[region]; ok {
		return p
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(region)) // never fails
	return place{lat: -46, lon: -150 + float64(h.Sum32()%13)*25}
}

// The map is an equirectangular projection of mapWidth for 360 degrees; its northern edge
// is at mapNorth.
const (
	mapWidth  = 1440.0
	mapHeight = 540.0
	mapNorth  = 77.5
	mapDegree = mapWidth / 360
)

func (p place) x() float64 { return (p.lon + 180) * mapDegree }
func (p place) y() float64 { return (mapNorth - p.lat) * mapDegree }

// landText has a '#' for each 2.5 by 2.5 degrees of land, from mapNorth on. It is derived
// from Natural Earth's 1:110m land, which is in the public domain.
//
//go:embed land.txt
var landText string

// landSVG is the land as dots, in an image of its own, which browsers cache.
var landSVG = sync.OnceValue(func() []byte {
	const cell = 2.5 * mapDegree
	var dots strings.Builder
	for y, row := range strings.Split(strings.TrimSpace(landText), "\n") {
		for x, c := range row {
			if c == '#' {
				fmt.Fprintf(&dots, "M%d %dh0", int((float64(x)+0.5)*cell), int((float64(y)+0.5)*cell))
			}
		}
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f"><path d="%s" fill="none" stroke="#8593a8" stroke-opacity=".38" stroke-width="5" stroke-linecap="round"/></svg>`,
		mapWidth, mapHeight, dots.String())
})
