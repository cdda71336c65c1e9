package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/outbox/relay"
)

type endpointCommand struct {
	Set    endpointSetCommand    `cmd:"" help:"Set and enable a tenant's webhook endpoint."`
	Show   endpointShowCommand   `cmd:"" help:"Show a tenant's endpoint and the state of its deliveries."`
	Secret endpointSecretCommand `cmd:"" help:"Change the secret that a tenant's deliveries are signed with."`
	Remove endpointRemoveCommand `cmd:"" help:"Remove a tenant's webhook endpoint."`
}

// Help returns the text that homeward endpoint --help adds.
func (endpointCommand) Help() string { return liveHelp }

// withEndpoint passes the tenant's endpoint to a function.
func withEndpoint(ctx context.Context, f *storeFlags, tenant string, do func(all relay.Endpoints, e relay.Endpoint, found bool) error) error {
	return f.withStore(ctx, func(s *store) error {
		if _, err := s.Tenant(ctx, tenant); err != nil {
			return unknownTenant(tenant, err)
		}
		all := s.endpoints()
		e, found, err := all.Endpoint(ctx, tenant)
		if err != nil && !errors.Is(err, seal.ErrLost) { // without its secrets, which new ones can replace
			return err
		}
		if err = do(all, e, found); errors.Is(err, seal.ErrNoKey) {
			return noSealKey()
		}
		return err
	})
}

func lostSecret(tenant string) error {
	return fmt.Errorf("the secret of tenant %s is sealed under a key that is not here: set %s as the nodes have it, or replace the secret with homeward endpoint secret %s --only", tenant, node.SealKeys, tenant)
}

// noSealKey is an error of [seal.ErrNoKey] with what to do.
func noSealKey() error {
	return fmt.Errorf("%w: set %s as the nodes have it, or make one with homeward secrets key; %s=false stores secrets in clear text, as at nodes with seal: false", seal.ErrNoKey, node.SealKeys, node.SealSetting)
}

func noEndpoint(tenant string) error {
	return fmt.Errorf("tenant %s has no webhook endpoint; add one with homeward endpoint set %s URL", tenant, tenant)
}

func printSecret(io streams, secret string) {
	fmt.Fprintf(io.out, "signing secret: %s\nKeep it now: it is not shown again.\n", secret)
}

// putEndpoint replaces the endpoint that was read; minted is its new secret, "" for none. It also prints
// minted if the outcome of the write is unknown, because deliveries may then be signed with it.
func putEndpoint(ctx context.Context, io streams, all relay.Endpoints, was, e relay.Endpoint, minted string) error {
	err := all.PutEndpoint(ctx, was, e)
	if errors.Is(err, relay.ErrChanged) {
		return fmt.Errorf("the endpoint of tenant %s was changed by another operator meanwhile, and nothing was done: look at homeward endpoint show %[1]s, then repeat the command", e.Tenant)
	}
	if !errors.Is(err, claim.ErrUnavailable) {
		return err
	}
	if minted != "" {
		fmt.Fprintf(io.out, "signing secret: %s\nDeliveries may be signed with it from now on, or not: have the tenant accept it, too.\n", minted)
	}
	return fmt.Errorf("%w; whether the endpoint of tenant %s was changed is unknown: see homeward endpoint show %[2]s, and repeat the command if it was not", err, e.Tenant)
}

// printEnabled prints the side effects of writing an endpoint.
func printEnabled(io streams, was relay.Endpoint) {
	if !was.DisabledAt.IsZero() {
		fmt.Fprintf(io.out, "It was disabled and is used again. Send the events that were parked meanwhile: homeward outbox retry --all --queue events --tenant %s\n", was.Tenant)
	}
}

type endpointSetCommand struct {
	liveFlags
	Tenant       string `arg:"" help:"The tenant's id."`
	URL          string `arg:"" name:"url" help:"URL that receives events by POST: https://host/path."`
	AllowHTTP    bool   `name:"allow-http" help:"Allow an http:// URL, for development. The nodes' settings must allow it, too."`
	AllowPrivate bool   `name:"allow-private" help:"Allow a host that is not public, for development. The nodes' settings must allow it, too."`
}

func (c *endpointSetCommand) Run(ctx context.Context, io streams) error {
	if err := relay.CheckURL(c.URL, c.AllowHTTP); err != nil {
		if relay.CheckURL(c.URL, true) == nil {
			return fmt.Errorf("%w, or add --allow-http for a receiver on this machine", err)
		}
		return err
	}
	if err := relay.CheckHost(ctx, c.URL, c.AllowPrivate); err != nil {
		if relay.CheckHost(ctx, c.URL, true) == nil {
			return fmt.Errorf("%w, or add --allow-private for a receiver in your own network", err)
		}
		return err
	}
	return withEndpoint(ctx, &c.storeFlags, c.Tenant, func(all relay.Endpoints, was relay.Endpoint, found bool) error {
		next := relay.Endpoint{Tenant: c.Tenant, URL: c.URL, Secrets: was.Secrets}
		minted := ""
		switch {
		case !found:
			minted = relay.NewSecret()
			next.Secrets = []string{minted}
		case len(was.Secrets) == 0:
			return lostSecret(c.Tenant)
		}
		if err := putEndpoint(ctx, io, all, was, next, minted); err != nil {
			return err
		}
		fmt.Fprintf(io.out, "events of %s go to %s, from nodes that have events.webhooks on\n", c.Tenant, c.URL)
		if !found {
			printSecret(io, minted)
			return nil
		}
		fmt.Fprintf(io.out, "They are signed as before; homeward endpoint secret %s changes the secret.\n", c.Tenant)
		printEnabled(io, was)
		return nil
	})
}

type endpointShowCommand struct {
	liveFlags
	Tenant string `arg:"" help:"The tenant's id."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// endpointShown is the JSON of homeward endpoint show.
type endpointShown struct {
	Tenant       string     `json:"tenant"`
	URL          string     `json:"url"`
	Secrets      int        `json:"secrets"`
	Status       string     `json:"status"`   // ok, failing, disabled, or off where Webhooks is
	Webhooks     string     `json:"webhooks"` // the nodes' events.webhooks.on: on, off, unknown
	FailingSince *time.Time `json:"failing_since,omitempty"`
	DisabledAt   *time.Time `json:"disabled_at,omitempty"`
}

// Whether nodes deliver to endpoints at all.
const (
	webhooksOn      = "on"
	webhooksOff     = "off"
	webhooksUnknown = "unknown"
)

// webhooks is events.webhooks.on of the node that runs the command, or of the demo's settings. A
// database does not have the settings of its nodes.
func (c *endpointShowCommand) webhooks(ctx context.Context) (string, error) {
	var on bool
	b, here := ctx.Value(nodeKey{}).(node.Belongings)
	switch {
	case here:
		on = b.Webhooks
	case c.Data != "":
		s, err := node.LoadSettings(c.Config, os.Environ())
		if err != nil {
			return "", err
		}
		on = s.Events.Webhooks.On
	default:
		return webhooksUnknown, nil
	}
	if on {
		return webhooksOn, nil
	}
	return webhooksOff, nil
}

// explainWebhooks returns what a value means for deliveries.
func explainWebhooks(value string) string {
	switch value {
	case webhooksOn:
		return "on"
	case webhooksOff:
		return "off: nothing is delivered until events.webhooks.on is set at the nodes"
	default:
		return "unknown: the nodes' setting events.webhooks.on decides whether they deliver; --node HOST:PORT asks one"
	}
}

func (c *endpointShowCommand) Run(ctx context.Context, io streams) error {
	return withEndpoint(ctx, &c.storeFlags, c.Tenant, func(_ relay.Endpoints, e relay.Endpoint, found bool) error {
		if !found {
			return noEndpoint(c.Tenant)
		}
		webhooks, err := c.webhooks(ctx)
		if err != nil {
			return err
		}
		shown := endpointShown{Tenant: e.Tenant, URL: e.URL, Secrets: len(e.Secrets), Status: "ok", Webhooks: webhooks}
		if webhooks == webhooksOff {
			shown.Status = webhooksOff
		}
		if !e.FailingSince.IsZero() {
			shown.Status, shown.FailingSince = "failing", &e.FailingSince
		}
		if !e.DisabledAt.IsZero() {
			shown.Status, shown.DisabledAt = "disabled", &e.DisabledAt
		}
		if c.JSON {
			return indented(io, shown)
		}
		t := table(io)
		fmt.Fprintf(t, "tenant\t%s\nurl\t%s\nsecrets\t%d\nstatus\t%s\n", shown.Tenant, visible(shown.URL), shown.Secrets, shown.Status)
		if shown.FailingSince != nil {
			fmt.Fprintf(t, "failing since\t%s\n", shown.FailingSince.UTC().Format(time.RFC3339))
		}
		if shown.Secrets == 0 {
			fmt.Fprintf(t, "\t%v\n", lostSecret(c.Tenant))
		}
		if shown.DisabledAt != nil {
			fmt.Fprintf(t, "disabled at\t%s\n", shown.DisabledAt.UTC().Format(time.RFC3339))
		}
		fmt.Fprintf(t, "webhooks\t%s\n", explainWebhooks(shown.Webhooks))
		return t.Flush()
	})
}

type endpointSecretCommand struct {
	liveFlags
	Tenant string `arg:"" help:"The tenant's id."`
	Only   bool   `help:"Sign with the new secret alone from now on: the old one has leaked."`
	EndOld bool   `name:"end-old" help:"Create no new secret; sign with the newest alone from now on."`
}

func (c *endpointSecretCommand) Run(ctx context.Context, io streams) error {
	if c.Only && c.EndOld {
		return errors.New("--only mints a secret and --end-old mints none; leave one of them out")
	}
	return withEndpoint(ctx, &c.storeFlags, c.Tenant, func(all relay.Endpoints, e relay.Endpoint, found bool) error {
		if !found {
			return noEndpoint(c.Tenant)
		}
		was := e
		minted := relay.NewSecret()
		switch {
		case len(e.Secrets) == 0 && !c.Only:
			return lostSecret(c.Tenant)
		case c.EndOld:
			if len(e.Secrets) < 2 {
				fmt.Fprintf(io.out, "nothing to do: the deliveries of %s are signed with one secret\n", c.Tenant)
				return nil
			}
			e.Secrets, minted = e.Secrets[:1], ""
		case c.Only:
			e.Secrets = []string{minted}
		default: // newest first; the previous one stays valid, and older ones end
			e.Secrets = []string{minted, e.Secrets[0]}
		}
		if err := putEndpoint(ctx, io, all, was, e, minted); err != nil {
			return err
		}
		switch {
		case c.EndOld:
			fmt.Fprintf(io.out, "the deliveries of %s are signed with the newest secret alone from now on\n", c.Tenant)
		case c.Only:
			printSecret(io, minted)
			fmt.Fprintln(io.out, "Deliveries are signed with it alone from now on: those that arrive before the tenant has it are refused, and sent again.")
		default:
			printSecret(io, minted)
			fmt.Fprintf(io.out, "Deliveries are signed with it and with the one before it. Once the tenant checks with the new one: homeward endpoint secret %s --end-old\n", c.Tenant)
		}
		printEnabled(io, was)
		return nil
	})
}

type endpointRemoveCommand struct {
	liveFlags
	Tenant string `arg:"" help:"The tenant's id."`
}

func (c *endpointRemoveCommand) Run(ctx context.Context, io streams) error {
	return withEndpoint(ctx, &c.storeFlags, c.Tenant, func(all relay.Endpoints, _ relay.Endpoint, _ bool) error {
		removed, err := all.RemoveEndpoint(ctx, c.Tenant)
		switch {
		case errors.Is(err, claim.ErrUnavailable):
			return fmt.Errorf("%w; whether the endpoint of tenant %s was removed is unknown: repeat the command", err, c.Tenant)
		case err != nil:
			return err
		}
		if !removed {
			return noEndpoint(c.Tenant)
		}
		fmt.Fprintf(io.out, "%s gets no more events; those that wait are dropped when they are due\n", c.Tenant)
		return nil
	})
}
