package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
)

type gatewayReportCommand struct {
	Data string `type:"path" default:"homeward-gateway" help:"Directory of a homeward gateway, which may be running."`
	Runs string `placeholder:"URL" env:"HOMEWARD_RUNS" help:"Bucket of the reports, of nodes of homeward serve (${env}). Default: the one in --data."`
	Days int    `default:"7" help:"How many days to look back."`
}

// maxReports are as many as are read: one for each node and day, or start.
const maxReports = 500

func (c *gatewayReportCommand) Run(ctx context.Context, io streams) error {
	bucket := c.Runs
	if bucket == "" {
		if bucket = runsOf(c.Data); bucket == "" {
			return fmt.Errorf("%s has no data of a gateway; name its directory with --data, or the bucket of its reports with --runs", c.Data)
		}
	}
	open, err := node.OpenRuns(ctx, bucket)
	if err != nil {
		return fmt.Errorf("--runs: %w", err)
	}
	all, err := open.Book().List(ctx, runs.Shadow, maxReports)
	if err := errors.Join(err, open.Close()); err != nil {
		return err
	}
	since := time.Now().AddDate(0, 0, -c.Days)
	more := len(all) == maxReports && all[len(all)-1].Began.After(since)
	all = slices.DeleteFunc(all, func(r runs.Run) bool { return r.Began.Before(since) })
	if len(all) == 0 {
		fmt.Fprintf(io.out, "There is no report of the last %d days. A gateway with --mode shadow, or gateway.mode in its settings, makes them.\n", c.Days)
		return nil
	}
	figures := []string{
		node.ShadowRequests, node.ShadowFirst, node.ShadowReplayed, node.ShadowJoined, node.ShadowHeldBack, node.ShadowRefused, node.ShadowDoneAgain, node.ShadowUncompared,
	}
	sums, l := make([]int, len(figures)), shadowColumns.list(io)
	line := func(began, by any, counts []int) {
		cells := []any{began, by}
		for _, n := range counts {
			cells = append(cells, n)
		}
		l.row(cells...)
	}
	slices.Reverse(all) // the oldest first
	var unread []string
	for _, r := range all {
		if len(r.Figures) == 0 && r.Verdict == runs.Unknown {
			unread = append(unread, fmt.Sprintf("%s %s", moment(r.Began), visible(r.Sentence)))
			continue
		}
		counts := make([]int, len(figures))
		for _, f := range r.Figures {
			if i := slices.Index(figures, f.Name); i >= 0 {
				counts[i], _ = strconv.Atoi(f.Value)
				sums[i] += counts[i]
			}
		}
		line(r.Began, r.By, counts)
	}
	if len(all) > 1 && len(unread) == 0 && !more {
		line("all", "", sums)
	}
	if err := l.Flush(); err != nil {
		return err
	}
	for _, r := range all {
		for _, text := range r.Findings {
			fmt.Fprintf(io.out, "%s %s\n", r.Began.UTC().Format(time.DateOnly), visible(text))
		}
	}
	if more {
		unread = append(unread, fmt.Sprintf("There are more than the %d latest reports, which were read; look back fewer days with --days.", maxReports))
	}
	if len(unread) > 0 {
		return errors.New("not every report was read:\n" + strings.Join(unread, "\n"))
	}
	return nil
}
