package router_test

import (
	"context"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// A request with a stamped key goes straight to the home that the key names.
func ExampleRouter_Do() {
	topology, err := region.NewTopology([]region.Region{{Name: "us-east1", Code: 1}, {Name: "europe-west1", Code: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	here := router.New(router.Config{
		Self: "us-east1", Local: ownClaims{}, Peers: otherRegions{}, Topology: topology, Unreachable: func(string) bool { return false },
	})
	for _, code := range []claim.RegionCode{1, 2} {
		key, err := claim.Stamp(code, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		reply, err := here.Do(context.Background(), claim.Request{Key: claim.Key{Tenant: "acme", Value: key}, Stamp: code}, "")
		fmt.Println(reply.Home, reply.Hops, err)
	}
	// Output:
	// us-east1 0 <nil>
	// europe-west1 1 <nil>
}

// ownClaims stand for the claim.Service of this region.
type ownClaims struct{ router.Local }

func (ownClaims) Do(_ context.Context, home string, _ *claim.Request) (claim.Reply, error) {
	return claim.Reply{Home: home, ServedBy: home}, nil
}

// Replica finds nothing: the keys are new.
func (ownClaims) Replica(context.Context, *claim.Request) (claim.Reply, bool, *claim.Pin, error) {
	return claim.Reply{}, false, nil, nil
}

// otherRegions stand for region.Peers.
type otherRegions struct{ router.Peers }

func (otherRegions) Execute(_ context.Context, home string, _ claim.Request, hops int, _ string) (claim.Reply, error) {
	return claim.Reply{Home: home, ServedBy: home, Hops: hops}, nil
}
