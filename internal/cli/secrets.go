package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

type secretsCommand struct {
	Key    secretsKeyCommand    `cmd:"" help:"Print a new local sealing key."`
	Show   secretsShowCommand   `cmd:"" help:"Count stored values by the key that seals them."`
	Rotate secretsRotateCommand `cmd:"" help:"Reseal all stored values under the first key."`
}

// Help returns the text that homeward secrets --help adds.
func (secretsCommand) Help() string {
	return storeHelp + " The sealing keys are those that HOMEWARD_SEAL_KEYS, or the file that HOMEWARD_SEAL_KEYS_FILE names, gives the nodes; the demo's are in its directory. docs/SECURITY.md has the steps of a rotation."
}

type secretsKeyCommand struct{}

// Run prints only the key, so that the output can be redirected into a file.
func (secretsKeyCommand) Run(io streams) error {
	key, err := node.NewSealKey()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(io.out, key)
	return err
}

type secretsShowCommand struct{ storeFlags }

func (c *secretsShowCommand) Run(ctx context.Context, io streams) error {
	return c.withStore(ctx, func(s *store) error {
		census := seal.Census{Look: true}
		if err := goThrough(ctx, s, &census); err != nil {
			return err
		}
		return printCensus(io, s.ring, &census)
	})
}

type secretsRotateCommand struct{ storeFlags }

func (c *secretsRotateCommand) Run(ctx context.Context, io streams) error {
	return c.withStore(ctx, func(s *store) error {
		switch {
		case len(s.ring.Names()) == 0:
			return noSealKey()
		case !s.ring.Seals():
			return fmt.Errorf("%s is false, so nothing is sealed; unset it, and set seal to true at the nodes first", node.SealSetting)
		}
		census := seal.Census{Ring: s.ring}
		err := goThrough(ctx, s, &census)
		fmt.Fprintf(io.out, "sealed anew under key %v: %d\n", s.ring.Names()[0], census.Again)
		if census.Kept > 0 {
			fmt.Fprintf(io.out, "requests in flight that stay under a former key: %d; keep it until homeward secrets show counts none\n", census.Kept)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%w; values that were resealed stay so, and another run does the rest", err)
		case census.Lost > 0:
			return fmt.Errorf("%d values cannot be opened and stay as they are, for one: %w", census.Lost, census.Why)
		}
		return nil
	})
}

// goThrough passes every value that is sealed, or should be, to census.
func goThrough(ctx context.Context, s *store, census *seal.Census) error {
	if err := relay.Reseal(ctx, s, census); err != nil {
		return err
	}
	var errs []error
	for _, region := range s.regions { // one that is lost does not stop the others
		bodies, err := s.Region(region)
		if err == nil {
			err = notice.Reseal(ctx, bodies, region, census)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("notices of %s: %w", region, err))
		}
		if err := s.keepCalls(ctx, region, census); err != nil {
			errs = append(errs, fmt.Errorf("requests in flight of %s: %w", region, err))
		}
	}
	return errors.Join(errs...)
}

// keepCalls counts the calls in flight, which a gateway seals.
func (s *store) keepCalls(ctx context.Context, region string, census *seal.Census) error {
	for after := ""; ; {
		calls, err := s.rows.Calls(ctx, region, after, mostRows)
		if err != nil {
			return err
		}
		for i := range calls {
			census.Keep(calls[i].Payload)
		}
		if len(calls) < mostRows {
			return nil
		}
		after = calls[len(calls)-1].ID
	}
}

func printCensus(io streams, ring *seal.Ring, census *seal.Census) error {
	t := sealColumns.list(io)
	shown := map[string]bool{}
	for i, name := range ring.Names() {
		note := ""
		if i == 0 {
			note = "seals"
		}
		shown[name.String()] = true
		t.row(name, census.Under[name.String()], note)
	}
	for _, name := range slices.Sorted(maps.Keys(census.Under)) {
		switch {
		case name == "":
			t.row("none", census.Under[name], "not sealed")
		case !shown[name]:
			t.row(name, census.Under[name], "missing: HOMEWARD_SEAL_KEYS here does not have it")
		}
	}
	return t.Flush()
}
