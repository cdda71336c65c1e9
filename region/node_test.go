package region

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func TestMetaRoundTrip(t *testing.T) {
	heard := time.Now()
	longest := Node{
		Deployment: deploymentID, Name: "n", Region: strings.Repeat("r", MaxRegionName), Draining: true,
		RPCAddr: strings.Repeat("h", maxRPCAddr-5) + ":8080", Version: strings.Repeat("v", maxVersion), Versions: Versions{1 << 63, 1<<64 - 1},
	}
	for _, n := range []Node{
		{Name: "n", Region: us, RPCAddr: "10.0.0.1:9000"},
		{Name: "n", Region: us, RPCAddr: "[::1]:9000", Version: "v1.2.3", Draining: true, Versions: Versions{Epoch: 7}},
		{Name: "n", Region: us, RPCAddr: "10.0.0.1:9000", UnreadySince: heard},
		longest,
	} {
		b, err := encodeMeta(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > memberlist.MetaMaxSize {
			t.Errorf("%d bytes are more than memberlist carries", len(b))
		}
		if got, err := decodeMeta("n", b, heard); err != nil || got != n {
			t.Errorf("%+v came back as %+v, %v", n, got, err)
		}
		if got, err := decodeMeta("n", append(b, "later additions"...), heard); err != nil || got != n {
			t.Errorf("with additions: %+v, %v", got, err)
		}
		// Every cut is an error, never a panic or half a node.
		for i := range b {
			if _, err := decodeMeta("n", b[:i], heard); !errors.Is(err, errMeta) {
				t.Errorf("cut at %d: %v", i, err)
			}
		}
	}
}

func TestMetaRefuses(t *testing.T) {
	for _, n := range []Node{
		{Region: "No", RPCAddr: "a:1"},
		{Region: us, RPCAddr: ""},
		{Region: us, RPCAddr: "a"},
		{Region: us, RPCAddr: ":1"},
		{Region: us, RPCAddr: "a:0"},
		{Region: us, RPCAddr: strings.Repeat("h", maxRPCAddr) + ":1"},
		{Region: us, RPCAddr: "a:1", Version: strings.Repeat("v", maxVersion+1)},
	} {
		if _, err := encodeMeta(n); err == nil {
			t.Errorf("encoded %+v", n)
		}
	}
	for _, b := range [][]byte{
		nil, {metaFormat}, {metaFormat + 1, 0, 1, 'a', 3, 'a', ':', '1', 0},
		{metaFormat, 0, 1, 'A', 3, 'a', ':', '1', 0},
		{metaFormat, 0, 1, 'a', 1, 'a', 0},
	} {
		if _, err := decodeMeta("n", b, time.Now()); !errors.Is(err, errMeta) {
			t.Errorf("decoded %v: %v", b, err)
		}
	}
}
