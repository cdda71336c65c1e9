package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox/relay"
)

const storeHelp = `Works on the database at HOMEWARD_DATABASE_URL (or in the file named by HOMEWARD_DATABASE_URL_FILE), while nodes run. With --data it works on the directory of a stopped demo.`

// storeFlags select the store that a command works on.
type storeFlags struct {
	Data   string `type:"path" placeholder:"DIR" help:"Work on the --data directory of a stopped demo instead of the database."`
	Config string `type:"path" placeholder:"FILE" help:"With --data: the demo's settings file."`

	live bool // the command has --node, too
}

// store is a deployment as commands see it.
type store struct {
	deployment.Deployment
	// rows reach those of every region.
	rows    deployment.Store
	regions []string // by name
	codes   map[claim.RegionCode]string
	// ring has the keys that seal stored values, nil if the command reads none.
	ring *seal.Ring
}

// newStore reads the regions of d. The caller closes d and ring.
func newStore(ctx context.Context, d deployment.Deployment, ring *seal.Ring) (*store, error) {
	ctx, cancel := context.WithTimeout(ctx, node.ConnectTime)
	defer cancel()
	s := &store{Deployment: d, ring: ring, codes: map[claim.RegionCode]string{}}
	all, _, err := d.Regions(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the database has no region; homeward migrate up --regions adds some")
	}
	for _, r := range all {
		s.regions, s.codes[r.Code] = append(s.regions, r.Name), r.Name
	}
	slices.Sort(s.regions)
	s.rows, err = d.Region(s.regions[0])
	return s, err
}

// use passes d to a command.
func use(ctx context.Context, d deployment.Deployment, ring *seal.Ring, do func(*store) error) error {
	s, err := newStore(ctx, d, ring)
	if err != nil {
		return err
	}
	if err := s.record(ctx); err != nil {
		return err
	}
	return do(s)
}

// home names the region of a code.
func (s *store) home(code claim.RegionCode) (string, bool) {
	name, ok := s.codes[code]
	return name, ok
}

// chosen returns the regions that a --region flag selects.
func (s *store) chosen(region string) ([]string, error) {
	if region == "" {
		return s.regions, nil
	}
	return []string{region}, amongRegions("--region", region, s.regions)
}

// amongRegions lists the regions if name is none of them.
func amongRegions(flag, name string, regions []string) error {
	if slices.Contains(regions, name) {
		return nil
	}
	return fmt.Errorf("%s: there is no region %q; name one of %s", flag, name, strings.Join(regions, ", "))
}

// endpoints are the webhook endpoints of the tenants.
func (s *store) endpoints() relay.Endpoints { return relay.Sealed(s, s.ring) }

// withStore opens the store that f names while do runs.
func (f *storeFlags) withStore(ctx context.Context, do func(*store) error) error {
	return f.with(ctx, node.ToolPool(), true, do)
}

// withRows is withStore for commands that need nothing that is sealed.
func (f *storeFlags) withRows(ctx context.Context, do func(*store) error) error {
	return f.with(ctx, node.ToolPool(), false, do)
}

// withBooks is withStore for commands that read everything, and nothing that is sealed.
func (f *storeFlags) withBooks(ctx context.Context, do func(*store) error) error {
	return f.with(ctx, booksPool(), false, do)
}

// booksPool has long time-outs: the database sums the balances of a region from all of
// its rows, at a few million a second.
func booksPool() sqlstore.Pool {
	p := node.ToolPool()
	p.StatementTimeout, p.CallTimeout = 5*time.Minute, 6*time.Minute
	return p
}

func (f *storeFlags) with(ctx context.Context, pool sqlstore.Pool, sealed bool, do func(*store) error) error {
	if b, here := ctx.Value(nodeKey{}).(node.Belongings); here {
		return use(ctx, b.Deployment, b.Seal, do)
	}
	if f.Data != "" {
		return f.withStopped(ctx, sealed, do)
	}
	if f.Config != "" {
		return errors.New("--config is for --data; a database needs no settings")
	}
	url, err := node.Secret(os.Environ(), node.DatabaseURL)
	if err != nil {
		return err
	}
	if pool.AllowUnverified, err = node.AllowUnverified(os.Environ()); err != nil {
		return err
	}
	if url == "" {
		running := ""
		if f.live {
			running = ", or name a running node with --node HOST:PORT"
		}
		return fmt.Errorf("no database is set; set its URL in %s%s, or name the directory of a stopped demo with --data DIR", node.DatabaseURL, running)
	}
	if !sealed {
		return withSQL(ctx, url, pool, nil, do)
	}
	ring, err := node.ToolSeal(ctx, os.Environ())
	if err != nil {
		return err
	}
	return withSQL(ctx, url, pool, ring, do)
}

// withSQL owns ring, which may be nil.
func withSQL(ctx context.Context, url string, pool sqlstore.Pool, ring *seal.Ring, do func(*store) error) error {
	return errors.Join(node.WithPool(ctx, url, pool, func(db *sqlstore.DB) error {
		return use(ctx, deployment.SQL(db), ring, do)
	}), ring.Close())
}

func (f *storeFlags) withStopped(ctx context.Context, sealed bool, do func(*store) error) error {
	settings, err := node.LoadSettings(f.Config, os.Environ())
	if err != nil {
		return err
	}
	d, err := node.OpenStopped(f.Data, settings)
	if err != nil {
		return err
	}
	var ring *seal.Ring
	if sealed {
		if ring, err = node.DemoSeal(ctx, f.Data, nil); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	return errors.Join(use(ctx, d, ring, do), ring.Close(), d.Close())
}
