package cli

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

func TestTenants(t *testing.T) {
	url := emptyDatabase(t)
	refuses(t, []string{"schema version 0", "migrate up"}, "tenant", "list")
	does(t, "migrate", "up", "--regions", "us-east1,europe-west1,asia-northeast1")

	created := does(t, "tenant", "create", "acme", "--name", "Acme Rockets", "--registrar", "us-east1")
	first := apiKey(t, created)
	require.Contains(t, created, "not shown again")
	require.True(t, opens(t, url, first))
	require.False(t, opens(t, url, first+"x"))

	refuses(t, []string{"acme", "exists"}, "tenant", "create", "acme", "--name", "Other", "--registrar", "us-east1")
	refuses(t, []string{`"mars"`, "us-east1", "europe-west1"}, "tenant", "create", "x", "--name", "X", "--registrar", "mars")
	refuses(t, []string{"--name is empty"}, "tenant", "create", "x", "--name", " ", "--registrar", "us-east1")
	refuses(t, []string{"not a tenant id"}, "tenant", "create", "a b", "--name", "X", "--registrar", "us-east1")
	refuses(t, []string{"--registrar"}, "tenant", "create", "x", "--name", "X")

	listed := regexp.MustCompile(`(?m)^([0-9a-f]{12}) +(\w+) +(20\S+) +(\S+)$`)
	short := func(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key)))[:12] }
	keys := func() (found [][]string) {
		t.Helper()
		return listed.FindAllStringSubmatch(does(t, "tenant", "keys", "acme"), -1)
	}
	require.Contains(t, created, "In homeward tenant keys acme it is "+short(first))
	_, ofTest, _ := strings.Cut(created, "tenant acme~test")
	test := apiKey(t, ofTest)
	require.Regexp(t, "^hw_live_", first)
	require.Regexp(t, "^hw_test_", test)
	require.True(t, opens(t, url, test))
	require.Contains(t, does(t, "tenant", "keys", "acme~test"), short(test))
	require.Regexp(t, "^hw_test_", apiKey(t, does(t, "tenant", "rotate-key", "acme~test")))
	require.Equal(t, "24h0m0s have passed for acme~test\n", does(t, "tenant", "elapse", "acme~test", "--by", "24h"))
	refuses(t, []string{"acme is live", "acme~test"}, "tenant", "elapse", "acme", "--by", "24h")
	refuses(t, []string{"--by"}, "tenant", "elapse", "acme~test", "--by", "-1h")
	refuses(t, []string{`"nobody~test"`}, "tenant", "elapse", "nobody~test", "--by", "1h")
	refuses(t, []string{"not a tenant id"}, "tenant", "create", "x~test", "--name", "X", "--registrar", "us-east1")
	require.NoError(t, node.WithDatabase(t.Context(), url, func(db *sqlstore.DB) error {
		us := claim.Tenant{Registrar: "us-east1"}
		us.ID = "nobody~test"
		require.ErrorContains(t, db.PutTenant(t.Context(), us), "there is no tenant nobody whose test side")
		for id, key := range map[string]string{"acme": claim.NewAPIKey("acme~test"), "acme~test": claim.NewAPIKey("acme")} {
			us.ID = id
			require.ErrorContains(t, db.PutTenant(t.Context(), us, key), "of the other side")
		}
		return nil
	}))
	require.Len(t, keys(), 1)
	require.Equal(t, []string{short(first), "valid"}, keys()[0][1:3])
	require.Equal(t, "-", keys()[0][4])
	refuses(t, []string{`"nobody"`, "tenant list"}, "tenant", "keys", "nobody")

	second := apiKey(t, does(t, "tenant", "rotate-key", "acme"))
	require.NotEqual(t, first, second)
	require.True(t, opens(t, url, first), "for a day both open the door")
	require.True(t, opens(t, url, second))
	rotated := keys()
	require.Len(t, rotated, 2)
	require.Equal(t, []string{short(first), "ending"}, rotated[0][1:3])
	ends, err := time.Parse(time.RFC3339, rotated[0][4])
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), ends, time.Minute)
	require.Equal(t, []string{short(second), "valid"}, rotated[1][1:3])
	third := apiKey(t, does(t, "tenant", "rotate-key", "acme", "--keep", "0s"))
	require.False(t, opens(t, url, first))
	require.False(t, opens(t, url, second))
	require.True(t, opens(t, url, third))
	ended := keys()
	require.Len(t, ended, 3)
	require.Equal(t, []string{"ended", "ended", "valid"}, []string{ended[0][2], ended[1][2], ended[2][2]})
	require.Contains(t, does(t, "tenant", "keys", "acme", "--json"), `"state": "ended"`)
	refuses(t, []string{`"nobody"`, "tenant list"}, "tenant", "rotate-key", "nobody")
	refuses(t, []string{"--keep"}, "tenant", "rotate-key", "acme", "--keep", "-1s")

	does(t, "tenant", "create", "globex", "--name", "Globex", "--registrar", "europe-west1")
	list := does(t, "tenant", "list")
	require.Regexp(t, `(?s)acme +Acme Rockets +us-east1.*acme~test +Acme Rockets +us-east1.*globex +Globex +europe-west1`, list)
	code, page, more := homeward(t, "tenant", "list", "--limit", "1")
	require.Zero(t, code)
	require.NotContains(t, page, "globex")
	require.Contains(t, more, "--after acme")
	code, page, more = homeward(t, "tenant", "list", "--limit", "2", "--after", "acme~test")
	require.Zero(t, code)
	require.Contains(t, page, "globex")
	require.Empty(t, more)
	refuses(t, []string{"--limit"}, "tenant", "list", "--limit", "0")

	require.Regexp(t, `acme .* refuse +\n`, list, "card numbers are refused by default")
	require.Contains(t, does(t, "tenant", "set", "acme", "--card-numbers", "mask"), "acme: mask")
	require.Regexp(t, `(?s)acme [^\n]* mask +\n.*globex [^\n]* refuse +\n`, does(t, "tenant", "list"))
	refuses(t, []string{`"nobody"`, "tenant list"}, "tenant", "set", "nobody", "--card-numbers", "allow")
	refuses(t, []string{"--card-numbers", "refuse"}, "tenant", "set", "acme", "--card-numbers", "maybe")

	moved := does(t, "tenant", "move-registrar", "acme", "--to", "europe-west1")
	require.Contains(t, moved, "from now on")
	require.Contains(t, moved, "for as long as there are any", "the last pin may outlive its windows")
	require.Contains(t, moved, "back to us-east1")
	require.Regexp(t, `acme +Acme Rockets +europe-west1 +us-east1 +20`, does(t, "tenant", "list"))
	require.Contains(t, does(t, "tenant", "move-registrar", "acme", "--to", "europe-west1"), "nothing to do")
	refuses(t, []string{`"nobody"`}, "tenant", "move-registrar", "nobody", "--to", "us-east1")
	refuses(t, []string{`"mars"`, "us-east1"}, "tenant", "move-registrar", "acme", "--to", "mars")
}

// apiKey finds the key in what was printed.
func apiKey(t testing.TB, printed string) string {
	t.Helper()
	_, rest, found := strings.Cut(printed, "API key: ")
	require.True(t, found, printed)
	key, _, _ := strings.Cut(rest, "\n")
	require.Greater(t, len(key), 40)
	return key
}

// opens reports whether a node would accept the key.
func opens(t testing.TB, url, key string) (found bool) {
	t.Helper()
	require.NoError(t, node.WithDatabase(t.Context(), url, func(db *sqlstore.DB) error {
		v, err := db.Region("us-east1")
		if err == nil {
			_, found, err = v.TenantByAPIKey(t.Context(), claim.HashAPIKey(key))
		}
		return err
	}))
	return found
}
