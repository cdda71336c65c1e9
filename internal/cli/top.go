package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/region/admin"
)

type topCommand struct {
	askFlags
	Every time.Duration `default:"2s" help:"Refresh interval."`
	Once  bool          `help:"Print it once and end."`
}

// Help returns the text that homeward top --help adds.
func (topCommand) Help() string {
	return "On a terminal the screen is renewed until Ctrl-C; otherwise it is printed again each time."
}

// topArrivals is how many of the latest requests are listed: with the regions of a large
// deployment they fit a terminal of 24 lines.
const topArrivals = 8

// clearScreen moves to the top left corner and clears the rest.
const clearScreen = "\x1b[H\x1b[J"

// Run shows regions and rates until ctx ends.
func (c *topCommand) Run(ctx context.Context, io streams) error {
	if c.Every < 100*time.Millisecond {
		return fmt.Errorf("--every must be at least 100ms, is %v: each round sends a request to every node", c.Every)
	}
	return c.withOperator(io, func(o *operator.Operator) error {
		for first := true; ; first = false {
			all, err := o.Look(ctx, admin.Question{Gather: true, Arrivals: topArrivals, WithoutBacklog: true})
			if ctx.Err() != nil {
				return nil // Ctrl-C is how it ends
			}
			if err != nil && first {
				return err
			}
			var page bytes.Buffer
			if err != nil { // the next node may answer, or this one again
				fmt.Fprintln(&page, visible(err.Error()))
			} else {
				err = printTop(&page, all, time.Now())
			}
			if terminal(io.out) && !c.Once {
				fmt.Fprint(steered(io.out), clearScreen)
			}
			if _, werr := page.WriteTo(io.out); werr != nil || c.Once {
				return errors.Join(err, werr)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(c.Every):
			}
		}
	})
}

func printTop(out io.Writer, o *admin.Overview, now time.Time) error {
	fmt.Fprintf(out, "homeward top   %s   as %s sees it, at epoch %d\n\n", now.UTC().Format(time.TimeOnly+"Z"), o.Node, o.Epoch)
	t := topColumns.list(streams{out: out})
	for _, state := range o.Regions {
		traffic, silent := o.Traffic(state.Name)
		nodes, rtt := strconv.Itoa(len(o.Of(state.Name))), "-"
		if len(silent) > 0 {
			nodes += fmt.Sprintf(", %d silent", len(silent))
		}
		if n := o.Unready(state.Name); n > 0 {
			nodes += fmt.Sprintf(", %d not ready", n)
		}
		if state.RTT >= 0 {
			rtt = state.RTT.Round(100 * time.Microsecond).String()
		}
		var ways []string
		for _, way := range []string{admin.WayLocal, admin.WayForward, admin.WayReplica, admin.WayDeputy, admin.WayUnrouted} {
			var n uint64
			for _, f := range traffic.Flows {
				if f.Way == way {
					n += f.Total
				}
			}
			if n > 0 {
				ways = append(ways, fmt.Sprintf("%s %d", wayWord(way), n))
			}
		}
		t.row(state.Name, state.Status, nodes, rtt,
			fmt.Sprintf("%.1f", float64(traffic.Lately.Requests)/admin.Lately.Seconds()), traffic.Total.Requests, traffic.Total.Replayed, traffic.Total.Refused, traffic.Total.Failed,
			cmp.Or(strings.Join(ways, ", "), "-"), cmp.Or(strings.Join(traffic.DeputyFor, ", "), "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printSilent(out, o)
	return printArrivals(out, o)
}

// printSilent prints, for each region, the nodes of others that do not answer its calls.
func printSilent(out io.Writer, o *admin.Overview) {
	for _, state := range o.Regions {
		var silent []string
		for _, m := range o.Of(state.Name) {
			if m.Part != nil {
				silent = append(silent, m.Part.Silent...)
			}
		}
		slices.Sort(silent)
		if silent = slices.Compact(silent); len(silent) > 0 {
			fmt.Fprintf(out, "! calls from %s to %s get no answer, although gossip sees them alive: is their RPC port closed to it?\n",
				state.Name, visible(strings.Join(silent, ", ")))
		}
	}
}

func printArrivals(out io.Writer, o *admin.Overview) error {
	all := o.Latest()
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	t := arrivalColumns.list(streams{out: out})
	for _, a := range all[:min(len(all), topArrivals)] {
		answer := strconv.Itoa(a.Status)
		switch {
		case a.Replayed:
			answer += " replayed"
		case a.Code != "":
			answer += " " + a.Code
		}
		t.row(a.At.UTC().Format(time.TimeOnly), a.Entry, a.Operation, a.Tenant, a.Key,
			wayWord(a.Way), cmp.Or(a.Home, "-"), answer, a.Took.Round(time.Millisecond))
	}
	return t.Flush()
}

// wayWord is the word of a way, as the columns WAYS and WAY explain it.
func wayWord(way string) string {
	if way == admin.WayLocal {
		return "home"
	}
	return way
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := steered(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
