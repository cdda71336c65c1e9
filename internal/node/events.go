package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/nats"
)

// EventsSettings configure the sinks that events are emitted to. They must be the same
// at every node of a deployment: each settlement writes one row for each sink. Without
// sinks it writes none.
type EventsSettings struct {
	// Log writes a line for each event.
	Log bool `koanf:"log"`
	// Webhooks notifies tenants at the endpoints that homeward endpoint sets.
	Webhooks WebhookSettings `koanf:"webhooks"`
	// NATS publishes to JetStream.
	NATS NATSSettings `koanf:"nats"`
}

// WebhookSettings are those of relay.WebhooksConfig.
type WebhookSettings struct {
	On           bool          `koanf:"on"`
	Timeout      time.Duration `koanf:"timeout"`
	DisableAfter time.Duration `koanf:"disable_after"`
	// AllowPrivate and AllowHTTP are for development.
	AllowPrivate bool `koanf:"allow_private"`
	AllowHTTP    bool `koanf:"allow_http"`
}

// NATSSettings are those of nats.Config. User and password belong in the credentials
// file.
type NATSSettings struct {
	// URL is "" for none.
	URL string `koanf:"url"`
	// AllowPlaintext allows events to be sent to other machines without TLS.
	AllowPlaintext bool          `koanf:"allow_plaintext"`
	Credentials    string        `koanf:"credentials"`
	CA             string        `koanf:"ca"`
	Cert           string        `koanf:"cert"`
	Key            string        `koanf:"key"`
	Stream         string        `koanf:"stream"`
	Prefix         string        `koanf:"prefix"`
	Create         bool          `koanf:"create"`
	Replicas       int           `koanf:"replicas"`
	Duplicates     time.Duration `koanf:"duplicates"`
	MaxAge         time.Duration `koanf:"max_age"`
}

// DefaultEvents emits to no sink.
func DefaultEvents() EventsSettings {
	return EventsSettings{
		Webhooks: WebhookSettings{Timeout: relay.DefaultTimeout, DisableAfter: relay.DisableAfter},
		NATS: NATSSettings{
			Stream: nats.DefaultStream, Prefix: nats.DefaultPrefix, Create: true, Replicas: 1,
			Duplicates: nats.DefaultDuplicates, MaxAge: nats.DefaultMaxAge,
		},
	}
}

// validate refuses secrets in a file that is kept and shown, and settings that the
// sinks would refuse as they are opened. Servers and files are checked then. A webhook's time-out
// must not outlast what p gives a claim's first holder for the delivery: others would deliver the
// same events beside it.
func (s EventsSettings) validate(p claim.Policy) error {
	for server := range strings.SplitSeq(s.NATS.URL, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server // as the client reads it
		}
		u, err := url.Parse(server)
		switch {
		case err != nil: // its text contains the URL, which may contain a password
			return errors.New("settings: events.nats.url is not a URL; write tls://host:4222")
		case u.User != nil:
			return errors.New("settings: events.nats.url holds a user, password or token, which are secrets; put them into the file that events.nats.credentials names")
		}
	}
	var errs []error
	if s.Webhooks.On {
		if err := s.Webhooks.config().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("settings: events.webhooks: %w", err))
		} else if most := p.EventsFor() / 2; most > 0 && s.Webhooks.Timeout > most {
			errs = append(errs, fmt.Errorf("settings: events.webhooks.timeout must be at most three times claim.lease, which is %v, is %v", most, s.Webhooks.Timeout))
		}
	}
	if s.NATS.URL != "" {
		if err := s.NATS.config().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("settings: events.nats: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkFiles reads the files that s names.
func (s EventsSettings) checkFiles() error {
	if s.NATS.URL == "" {
		return nil
	}
	if err := s.NATS.config().CheckFiles(); err != nil {
		return fmt.Errorf("settings: events.nats: %w", err)
	}
	return nil
}

func (w WebhookSettings) config() relay.WebhooksConfig {
	return relay.WebhooksConfig{Timeout: w.Timeout, DisableAfter: w.DisableAfter, AllowPrivate: w.AllowPrivate, AllowHTTP: w.AllowHTTP}
}

func (n NATSSettings) config() nats.Config {
	return nats.Config{
		URL: n.URL, AllowPlaintext: n.AllowPlaintext, Credentials: n.Credentials, CAFile: n.CA, CertFile: n.Cert, KeyFile: n.Key,
		Stream: n.Stream, Prefix: n.Prefix, Create: n.Create, Replicas: n.Replicas,
		Duplicates: n.Duplicates, MaxAge: n.MaxAge,
	}
}

// Sinks are the open sinks of a process.
type Sinks struct {
	kinds    map[outbox.Kind]relay.Sink
	webhooks *relay.Webhooks
	nats     *nats.Sink
}

// open opens every configured sink. ctx bounds the opening only.
func (s EventsSettings) open(ctx context.Context, endpoints relay.Endpoints, log *slog.Logger) (_ *Sinks, err error) {
	all := &Sinks{kinds: map[outbox.Kind]relay.Sink{}}
	defer func() {
		if err != nil {
			all.Close()
		}
	}()
	if s.Log {
		all.kinds[outbox.KindLog] = relay.Log{Logger: log}
	}
	if s.Webhooks.On {
		c := s.Webhooks.config()
		c.Endpoints, c.Logger = endpoints, log
		if all.webhooks, err = relay.NewWebhooks(c); err != nil {
			return nil, fmt.Errorf("settings: events.webhooks: %w", err)
		}
		all.kinds[outbox.KindWebhook] = all.webhooks
	}
	if s.NATS.URL != "" {
		c := s.NATS.config()
		c.Logger = log
		if all.nats, err = nats.Open(ctx, c); err != nil {
			return nil, fmt.Errorf("settings: events.nats: %w", err)
		}
		all.kinds[outbox.KindNATS] = all.nats
	}
	return all, nil
}

// Close closes them; call it once no worker uses them.
func (s *Sinks) Close() {
	if s.webhooks != nil {
		s.webhooks.Close()
	}
	if s.nats != nil {
		s.nats.Close()
	}
}
