package httpapi

import (
	"encoding/json"
	"testing"

	"github.com/homeward-io/homeward/claim"
)

// A region that takes no new homes mints keys with the code of another region. While no region
// takes new homes, it mints none.
func TestMintedKeysHaveAHomeThatTakesThem(t *testing.T) {
	var home claim.RegionCode
	f := newFake()
	h := newAPI(t, f, func(c *Config) {
		c.NewKeys = func() (claim.RegionCode, bool) { return home, home != 0 }
	})
	for _, home = range []claim.RegionCode{7, 9} {
		w := serve(h, request("POST", "/v1/idempotency-keys", `{"count":3}`))
		if w.Code != 200 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		var answer struct{ Keys []string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Keys) != 3 {
			t.Fatalf("%v, %d keys", err, len(answer.Keys))
		}
		for _, key := range answer.Keys {
			if code, ok := claim.ReadStamp(key); !ok || code != home {
				t.Errorf("key %s has code %d, want %d", key, code, home)
			}
		}
	}
	home = 0
	w := serve(h, request("POST", "/v1/idempotency-keys", `{"count":1}`))
	p := problemIn(t, w)
	if w.Code != 503 || p.Error != "home_unavailable" || p.Retry != "same_key" || p.RetryAfterMS <= 0 || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, %+v", w.Code, p)
	}
}
