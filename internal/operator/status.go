package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// noHomes is the consequence of draining the last active region.
const noHomes = "no region gives new keys a home now, so new payments get 503 until one is active again"

// drainEvery is how often a drain polls, sayEvery how often it repeats changed details
// of the step that it waits for.
const (
	drainEvery = 500 * time.Millisecond
	sayEvery   = 5 * time.Second
)

func (o *Operator) sayf(format string, args ...any) { o.say(fmt.Sprintf(format, args...)) }

// Drain sends traffic away from a region, and waits up to timeout until it is safe to
// take down. It drains the last active region, or the last with live nodes, only if evenLast.
func (o *Operator) Drain(ctx context.Context, name string, timeout time.Duration, evenLast bool) error {
	last, alone, err := o.lastActive(ctx, name)
	switch {
	case err != nil:
		return err
	case last && !evenLast:
		return fmt.Errorf("%[1]s is the last active region: drained, no region would give new keys a home, and new payments would get 503; make another one active first (homeward region undrain, or up), or add --yes", name)
	case alone && !evenLast:
		return fmt.Errorf("no node of another active region is alive: once %[1]s is taken down, nothing answers; start nodes of another one first, or add --yes", name)
	}
	epoch, err := o.setStatus(ctx, name, region.Draining)
	if err != nil {
		return err
	}
	// Another region may have been drained since the look.
	if last, _, err = o.lastActive(ctx, name); err != nil {
		return fmt.Errorf("%s is draining, but its progress cannot be read: %w", name, err)
	}
	newKeys := "new keys get other homes"
	if last {
		newKeys = noHomes
	}
	o.sayf("%s is draining, epoch %d: %s; what is at home there is served as before", name, epoch, newKeys)
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := drain{Operator: o, region: name, epoch: epoch}
	for {
		safe, err := d.look(waiting)
		if err != nil || safe {
			return err
		}
		select {
		case <-waiting.Done():
			return d.ended(ctx, timeout)
		case <-time.After(drainEvery):
		}
	}
}

// lastActive reports whether no other region is active, and whether no node of an active one is alive.
// Another operator may change that right after.
func (o *Operator) lastActive(ctx context.Context, name string) (last, alone bool, err error) {
	all, err := o.Overview(ctx, 0)
	if err != nil || all.Region(name) == nil {
		return false, false, err // setting the status of an unknown region lists the regions
	}
	last, alone = true, true
	for _, r := range all.Regions {
		if r.Name != name && r.Status == region.Active {
			last, alone = false, alone && len(all.Of(r.Name)) == 0
		}
	}
	return last, alone, nil
}

// drain is one wait for a region, reported step by step.
type drain struct {
	*Operator
	region string
	epoch  uint64

	done  int // steps that were reported as done
	said  string
	at    time.Time
	steps []admin.DrainStep
}

// look reports whether no step is open.
func (d *drain) look(ctx context.Context) (safe bool, err error) {
	o, err := d.Overview(ctx, d.epoch)
	if err != nil {
		if ctx.Err() != nil {
			return false, nil // the caller reports it
		}
		return false, fmt.Errorf("%s keeps draining, but its progress cannot be read: %w", d.region, err)
	}
	r := o.Region(d.region)
	if r != nil && o.Epoch >= d.epoch && r.Status != region.Draining {
		return false, fmt.Errorf("%s stopped draining: another operator set it to %v", d.region, r.Status)
	}
	d.steps = o.DrainSteps(d.region, d.epoch)
	for i, s := range d.steps {
		if s.Open != "" {
			d.wait(s.Open)
			return false, nil
		}
		if i >= d.done {
			d.say("done: " + s.Done)
			d.done++
		}
	}
	for _, line := range Parked(*r) {
		d.say(line)
	}
	d.sayf("safe to take down: %s (as %s sees the deployment; homeward region undrain %s takes it back)", d.region, o.Node, d.region)
	return true, nil
}

// wait prints the open step, and its changes at most every sayEvery.
func (d *drain) wait(open string) {
	what, _, _ := strings.Cut(open, ":")
	before, _, _ := strings.Cut(d.said, ":")
	if open == d.said || what == before && time.Since(d.at) < sayEvery {
		return
	}
	d.said, d.at = open, time.Now()
	d.say("waiting: " + open)
}

// ErrNotSafe: a drain has not completed in time.
var ErrNotSafe = errors.New("not safe to take down")

// ended returns the open steps; [ErrNotSafe] if they were read.
func (d *drain) ended(ctx context.Context, timeout time.Duration) error {
	const goesOn = "it goes on draining, so run this again to wait on, or homeward region undrain"
	var open []string
	for _, s := range d.steps {
		if s.Open != "" {
			open = append(open, s.Open)
		}
	}
	switch {
	case d.steps == nil:
		return fmt.Errorf("it is unknown whether %[1]s is safe to take down: no node has answered; %[2]s %[1]s", d.region, goesOn)
	case ctx.Err() != nil:
		return fmt.Errorf("%[1]s was not safe to take down at the last check: %[2]s; %[3]s %[1]s", d.region, strings.Join(open, "; "), goesOn)
	}
	return fmt.Errorf("%[1]s is %[4]w after %[5]v: %[2]s; %[3]s %[1]s", d.region, strings.Join(open, "; "), goesOn, ErrNotSafe, timeout)
}

// Activate ends a drain, or re-activates a region that was down: new keys may get their
// home there again, and its live nodes take traffic.
func (o *Operator) Activate(ctx context.Context, name string) error {
	epoch, err := o.setStatus(ctx, name, region.Active)
	if err != nil {
		return err
	}
	o.sayf("%s is active, epoch %d: new keys may get their home there", name, epoch)
	all, err := o.sayApplied(ctx, epoch)
	if err != nil {
		return err
	}
	if alive := len(all.Of(name)); alive > 0 {
		o.sayf("it takes traffic: %d of its nodes %s alive", alive, map[bool]string{true: "is", false: "are"}[alive == 1])
	} else {
		o.sayf("no node of %s is alive: it takes traffic once its nodes have started", name)
	}
	return nil
}

// sayApplied prints which nodes have an epoch. The others will read it within seconds;
// nothing depends on it.
func (o *Operator) sayApplied(ctx context.Context, epoch uint64) (*admin.Overview, error) {
	all, err := o.Overview(ctx, epoch)
	if err != nil {
		return nil, fmt.Errorf("the status is set, but which nodes have applied it cannot be read: %w", err)
	}
	if know := all.DrainSteps("", epoch)[0]; know.Open != "" {
		o.say("not yet applied everywhere, which takes seconds and is no danger: " + know.Open)
	} else {
		o.say(know.Done)
	}
	return all, nil
}

// Down marks a region as down; evenAlive: also while it has live nodes.
func (o *Operator) Down(ctx context.Context, name string, evenAlive bool) error {
	all, err := o.Overview(ctx, 0)
	if err != nil {
		return err
	}
	var alive []string
	for _, m := range all.Of(name) {
		alive = append(alive, m.Name)
	}
	if len(alive) > 0 && !evenAlive {
		return fmt.Errorf("nodes of %[1]s are alive: %[2]s; drain it and stop them first (homeward region drain %[1]s), or add --yes: the other regions then act on its rows beside them, which is safe, as the rows decide, but slow", name, strings.Join(alive, ", "))
	}
	epoch, err := o.setStatus(ctx, name, region.Down)
	if err != nil {
		return err
	}
	o.sayf("%[1]s is down, epoch %[2]d: no new keys there; the other regions answer for its keys and finish what it owes, as far as the database reaches its rows (homeward region up %[1]s brings it back)", name, epoch)
	if last, _, err := o.lastActive(ctx, name); err == nil && last { // otherwise sayApplied reports that nothing can be read
		o.say(noHomes)
	}
	_, err = o.sayApplied(ctx, epoch)
	return err
}

// Parked returns the first parked rows of regions, a line each.
func Parked(regions ...admin.RegionState) (lines []string) {
	for _, r := range regions {
		if r.Backlog == nil {
			continue
		}
		for _, p := range r.Backlog.ParkedRows {
			lines = append(lines, fmt.Sprintf("parked in %s: %s of tenant %s: %s", r.Name, p.ID, p.Tenant, strconv.QuoteToGraphic(p.Reason)))
		}
		if more := r.Backlog.Parked - len(r.Backlog.ParkedRows); more > 0 {
			lines = append(lines, fmt.Sprintf("parked in %s: %d more", r.Name, more))
		}
	}
	return lines
}
