package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/node/buckettest"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// leaves are all commands.
func leaves(t testing.TB) []*kong.Node {
	t.Helper()
	var c commands
	parser, err := kong.New(&c, kong.Name("homeward"))
	require.NoError(t, err)
	return parser.Model.Leaves(false)
}

// TestEachCommandHasARole: a command without one would need a treasurer, and leave nothing in
// the audit of what an operator does with it.
func TestEachCommandHasARole(t *testing.T) {
	var names []string
	for _, n := range leaves(t) {
		name := commandName(n)
		names = append(names, name)
		role, ok := roles[name]
		require.True(t, ok, "give %s a role in roles.go, and docs/SECURITY.md a line", name)
		if _, atNodes := reflect.TypeAssert[live](n.Target.Addr()); atNodes {
			require.NotEqual(t, apart, role, name)
		}
	}
	for name := range roles {
		require.Contains(t, names, name, "there is no such command")
	}
	security := page(t, filepath.Join("..", "..", "docs", "SECURITY.md"))
	for name, role := range roles {
		if role != apart {
			require.Regexp(t, "(?m)^\\| `"+role.String()+"` \\|.*`"+name+"`", security, "docs/SECURITY.md names the role of each command")
		}
	}
}

// proven is a node's admin service behind TLS, on an embedded store, with what operators of each
// role run at it.
type proven struct {
	*testing.T
	s    *store
	addr string
	runs string // its bucket of reports
	ca   *devcerts.Authority
}

func newProven(t *testing.T) *proven {
	t.Helper()
	onlyWith(t)
	d, err := node.OpenStopped(stoppedDemo(t), node.DefaultSettings())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	ring, err := node.DemoSeal(t.Context(), t.TempDir(), nil)
	require.NoError(t, err)
	p := &proven{T: t, runs: buckettest.New(t)}
	p.s, err = newStore(t.Context(), d, ring)
	require.NoError(t, err)
	p.ca, err = devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	certs := p.certs(region.Identity{Region: us, Node: "n1"})
	mux := http.NewServeMux()
	admin.New(admin.Config{Node: "n1", Run: atNode(node.Belongings{Deployment: d, Seal: ring, Runs: p.runs}), TLS: true}).Mount(mux)
	server := region.NewServer(mux, certs)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	p.addr = l.Addr().String()
	return p
}

// certs are those of an identity.
func (p *proven) certs(who region.Identity) *region.TLS {
	p.Helper()
	uri, err := who.URI("homeward")
	require.NoError(p, err)
	cert, key, err := p.ca.Issue(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), uri)
	require.NoError(p, err)
	files := lab.Certs{Dir: p.TempDir(), TrustDomain: "homeward"}.Files(who)
	write := func(path string, text []byte) { require.NoError(p, os.WriteFile(path, text, 0o600)) }
	write(files.Cert, cert)
	write(files.Key, key)
	write(files.CA, p.ca.PEM())
	certs, err := region.NewTLS(region.TLSConfig{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA, TrustDomain: "homeward"})
	require.NoError(p, err)
	return certs
}

// client calls the node as jo.
func (p *proven) client(role region.Role) *admin.Client {
	p.Helper()
	c, err := admin.NewClient(p.addr, p.certs(region.Identity{Operator: "jo", Role: role}))
	require.NoError(p, err)
	p.Cleanup(c.Close)
	return c
}

// acts are what the audit has of jo in a role, oldest first.
func (p *proven) acts(role region.Role) (all []string) {
	p.Helper()
	line, err := p.s.rows.Timeline(p.Context(), audit.ActorKey("operator jo ("+role.String()+")"), p.s.regions[0], 1000)
	require.NoError(p, err)
	for _, e := range line {
		require.Equal(p, claim.EventActed, e.Event)
		all = append(all, e.Detail)
	}
	return all
}

// TestEachRoleRunsWhatItMay at a node, by certificates on a real connection, and what changes
// anything is in the audit, by the certificate's name. Commands that only read are not audited.
func TestEachRoleRunsWhatItMay(t *testing.T) {
	p := newProven(t)
	args := map[string][]string{
		"inspect": {"order-1"}, "tenant list": {}, "tenant keys": {"acme"}, "endpoint set": {"acme", "https://shop.example/hooks?token=hush"},
		"endpoint show": {"acme"}, "endpoint secret": {"acme"}, "endpoint remove": {"acme"}, "outbox list": {}, "outbox retry": {"row-1"}, "outbox park": {"row-1"},
		"compensations show": {}, "compensations stop": {"--reason", "a test"}, "compensations release": {"--yes"},
		"ledger verify": {}, "ledger balances": {}, "ledger entries": {"merchant:acme"},
		"ledger adjust": {"--from", "bank:simulator", "--to", "suspense:acme", "--amount", "99999999", "--currency", "usd", "--reference", "case 9", "--by", "Somebody Else", "--why", "made up"},
	}
	for _, role := range []region.Role{region.RoleReader, region.RoleOperator, region.RoleTreasurer} {
		c := p.client(role)
		var want []string
		for _, n := range leaves(t) {
			name := commandName(n)
			_, atNodes := reflect.TypeAssert[live](n.Target.Addr())
			if _, ok := args[name]; atNodes {
				require.True(t, ok, "say how %s is called", name)
			}
			var out, errs bytes.Buffer
			code, err := c.Run(t.Context(), append(strings.Fields(name), args[name]...), &out, &errs)
			require.NoError(t, err)
			const refusal = "may not run"
			switch needed := roles[name]; {
			case !atNodes:
				require.NotZero(t, code, name)
			case role < needed:
				require.Equal(t, 1, code, name)
				require.Contains(t, errs.String(), "operator jo ("+role.String()+") may not run "+name+": it needs a certificate of the role "+needed.String())
				require.Empty(t, out.String(), name)
			default:
				require.NotContains(t, errs.String(), refusal, name)
				if needed > region.RoleReader {
					want = append(want, name)
				}
			}
		}
		acts := p.acts(role)
		require.Len(t, acts, len(want))
		for i, name := range want {
			require.True(t, strings.HasPrefix(acts[i], name+" ") || acts[i] == name, "%s: %s", name, acts[i])
			require.NotContains(t, acts[i], "hush")
		}
	}
	require.Contains(t, p.acts(region.RoleTreasurer), "ledger adjust --from=bank:simulator --to=suspense:acme --amount=99999999 --currency=usd --reference=case 9 --by=Somebody Else --why=made up")
	booked, found, err := p.s.rows.Transaction(t.Context(), p.s.homes()[0], "adjustment_case 9")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "operator jo (treasurer), note: Somebody Else", booked.By)
	var by []string
	for _, proof := range keptIn(t, p.runs, runs.Verify) {
		by = append(by, proof.By)
	}
	require.ElementsMatch(t, []string{"operator jo (reader)", "operator jo (operator)", "operator jo (treasurer)"}, by)
}

// TestTheAuditSaysWhatACommandWasGiven: values and not addresses, and no query of a URL, wherever the
// URL stands.
func TestTheAuditSaysWhatACommandWasGiven(t *testing.T) {
	for want, args := range map[string][]string{
		"tenant set acme --rate=0.5 --burst=7 --routes=*=stripe":           {"tenant", "set", "acme", "--rate", "0.5", "--burst", "7", "--routes", "*=stripe"},
		"reconcile --book=true --statement=https://psp.example/{from}.csv": {"reconcile", "--book", "--statement", "https://psp.example/{from}.csv?code=hush"},
		"endpoint set acme HTTPS://shop.example/hooks":                     {"endpoint", "set", "acme", "HTTPS://shop.example/hooks?token=hush"},
		"compensations stop --reason=see https://wiki.example/7 for more":  {"compensations", "stop", "--reason", "see https://wiki.example/7?token=hush for more"},
	} {
		var errs bytes.Buffer
		parsed, _ := parse(t.Context(), args, streams{&errs, &errs})
		require.NotNil(t, parsed, errs.String())
		var doing act
		doing.is("jo", parsed)
		require.Equal(t, want, doing.what)
	}
}

// TestTheAuditHasEveryRow that a command names, or nothing is done.
func TestTheAuditHasEveryRow(t *testing.T) {
	p := newProven(t)
	c := p.client(region.RoleOperator)
	var ids []string
	for i := range 90 {
		ids = append(ids, fmt.Sprintf("ch_%020d/attempt", i))
	}
	retry := func() string {
		var errs strings.Builder
		code, err := c.Run(t.Context(), append([]string{"outbox", "retry"}, ids...), io.Discard, &errs)
		require.NoError(t, err)
		require.Equal(t, 1, code)
		return errs.String()
	}
	retry()
	require.Equal(t, []string{"outbox retry [" + strings.Join(ids, " ") + "]"}, p.acts(region.RoleOperator))
	ids[0] = strings.Repeat("x", maxSaid)
	require.Contains(t, retry(), "nothing was done, since the command has")
	require.Len(t, p.acts(region.RoleOperator), 1)
}

// TestWithoutARecordNothingIsDone: what cannot be written to the audit is refused.
func TestWithoutARecordNothingIsDone(t *testing.T) {
	p := newProven(t)
	ctx, doing := withAct(t.Context())
	doing.by, doing.what, doing.role = "operator jo", "endpoint set", region.RoleTreasurer
	s := *p.s
	s.rows, s.regions = nil, nil
	require.ErrorContains(t, s.record(ctx), "nothing was done")
	doing.role = region.RoleReader
	require.NoError(t, s.record(ctx))
	require.NoError(t, s.record(context.Background()))
}

// TestToolsAreAudited, too: without a certificate the operating system names the operator.
func TestToolsAreAudited(t *testing.T) {
	twoStores(t, func(t *testing.T, flags []string, open func(func(*store))) {
		does(t, append([]string{"endpoint", "set", "acme", "https://shop.example/hooks"}, flags...)...)
		does(t, append([]string{"endpoint", "show", "acme"}, flags...)...)
		if len(flags) == 0 {
			does(t, "tenant", "set", "acme", "--rate", "5", "--burst", "9")
		}
		open(func(s *store) {
			line, err := s.rows.Timeline(t.Context(), audit.ActorKey(shellName()), s.regions[0], 100)
			require.NoError(t, err)
			var acts []string
			for _, e := range line {
				acts = append(acts, e.Detail)
			}
			require.True(t, slices.Contains(acts, "endpoint set acme https://shop.example/hooks"), "%q", acts)
			require.False(t, slices.ContainsFunc(acts, func(a string) bool { return strings.HasPrefix(a, "endpoint show") }))
			require.Equal(t, len(flags) == 0, slices.ContainsFunc(acts, func(a string) bool { return strings.HasPrefix(a, "tenant set acme") }), "%q", acts)
		})
	})
}
