package cli

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// A person stops automatic refunds, sees why, and releases them. A release of all does not release
// one provider's brake.
func TestCompensations(t *testing.T) {
	twoStores(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		run := func(args ...string) string {
			return does(t, append(append([]string{"compensations"}, args...), flags...)...)
		}
		held := func(provider string) (reason string) {
			open(func(s *store) {
				b := &notice.Brakes{Store: s, Limits: notice.DefaultLimits()}
				var err error
				reason, err = b.Held(t.Context(), provider)
				require.NoError(t, err)
			})
			return reason
		}
		require.Contains(t, run("show"), "nothing is stopped")
		require.Contains(t, run("stop", "--reason", "a\ndrill"), "(all) are stopped in every region")
		require.Contains(t, run("stop", "--reason", "again"), "nothing to do")
		require.Contains(t, held("sim"), "drill")
		require.Contains(t, run("stop", "--provider", "sim", "--reason", "its own"), "sim are stopped")
		require.Contains(t, run("show"), "its own")
		require.NotContains(t, run("show"), "flowing")
		require.Contains(t, run("release"), "(all) go on")
		require.Contains(t, run("release"), "nothing to do")
		require.Equal(t, "stopped by a person: its own", held("sim"))
		require.Empty(t, held("bank"))
		run("release", "--provider", "sim")
		require.Empty(t, held("sim"))
		require.Regexp(t, `STATUS +LAST HOUR +WHY +LAST DOUBT\n\(all\) +flowing +0 *\nsim +flowing +0 *\n`, run("show"), "nothing holds them")
		run("stop", "--reason", "for all")
		require.Regexp(t, `(?m)^sim +held +0 +\S+ stopped by a person: for all`, run("show"), "what holds all holds each")
		run("release")

		open(func(s *store) {
			b := &notice.Brakes{Store: s, Limits: notice.Limits{Count: 1, Sum: 1000}, Logger: slog.New(slog.DiscardHandler)}
			for id, stopped := range []bool{false, true} {
				reason, err := b.Admit(t.Context(), "sim", notice.Admission{ID: string(rune('a' + id)), Amount: 70, Currency: "usd"})
				require.NoError(t, err)
				require.Equal(t, stopped, reason != "")
			}
		})
		var all []brakeShown
		require.NoError(t, json.Unmarshal([]byte(run("show", "--json")), &all))
		require.Len(t, all, 2)
		require.Equal(t, []any{"sim", "held", 1, map[string]int64{"usd": 70}}, []any{all[1].Provider, all[1].Status, all[1].LastHour, all[1].Sums})
		require.Equal(t, run("show"), run(), "the alerts name the command alone")

		// A restore, where a ghost may be a good charge.
		open(func(s *store) {
			was, now, err := s.Restore(t.Context())
			require.NoError(t, err)
			changed, err := s.PutRestore(t.Context(), claim.NewRestore(was, now.Add(-time.Hour), now, now, nil, "ann", "a lost disk"))
			require.NoError(t, err)
			require.True(t, changed)
		})
		for _, of := range [][]string{nil, {"--provider", "sim"}} {
			release := append(append([]string{"compensations", "release"}, of...), flags...)
			run(append([]string{"stop", "--reason", "a restore"}, of...)...)
			refuses(t, []string{"a charge whose record is lost", "homeward restore show", "--yes"}, release...)
			require.NotEmpty(t, held("sim"))
			require.Contains(t, does(t, append(release, "--yes")...), "go on")
		}
		require.Empty(t, held("sim"))
		refuses(t, []string{"--reason"}, append([]string{"compensations", "stop"}, flags...)...)
	})
}
