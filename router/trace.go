package router

import (
	"context"
	"errors"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/span"
)

// pin asks the registrar. A key without a home gets home.
func (t *trip) pin(ctx context.Context, home string) (pin claim.Pin, err error) {
	ctx, sp := span.Start(ctx, span.Pin)
	defer sp.End()
	pin, err = t.Pins.Pin(ctx, t.req.Key, home)
	if sp.IsRecording() {
		sp.SetAttributes(span.Registrar.String(t.registrar))
		if err == nil {
			sp.SetAttributes(span.HomeRegion.String(pin.Home))
		} else if !claim.Answered(err) {
			span.Fail(sp, err)
		}
	}
	t.pinRead = true
	t.pinCount.Add(1, t.found(&pin, err))
	return pin, err
}

// pinnedHere records that a key's home was pinned, or found, with its claim.
func (t *trip) pinnedHere(err error) {
	if err != nil && !claim.Answered(err) {
		return
	}
	t.homeName = t.Self
	t.pinCount.Add(1, "here")
}

// found names the outcome of a look-up of a pin.
func (t *trip) found(pin *claim.Pin, err error) string {
	switch {
	case errors.Is(err, claim.ErrNeedPin):
		return "none"
	case errors.Is(err, claim.ErrNoNewHomes):
		return "no_new_homes"
	case err != nil && !claim.Answered(err):
		return meter.Unavailable
	case err != nil:
		return meter.Failed
	case pin.Home == t.Self:
		return "here"
	default:
		return "elsewhere"
	}
}

// replica asks the nearest replica for the final answer, or else for the pin. One that cannot be
// read shows nothing.
func (t *trip) replica(ctx context.Context) (reply claim.Reply, found bool, pin *claim.Pin, err error) {
	if t.Unready(t.Self) {
		return claim.Reply{}, false, nil, nil
	}
	reply, found, pin, err = t.Local.Replica(ctx, &t.req)
	t.remembered = t.remembered || found
	if errors.Is(err, claim.ErrUnavailable) && ctx.Err() == nil {
		err = nil
	}
	return reply, found, pin, err
}

// trace records where the request went.
func (t *trip) trace(sp span.Span, reply *claim.Reply, err error) {
	if !sp.IsRecording() {
		return
	}
	sp.SetAttributes(span.Tenant.String(t.req.Key.Tenant), span.Operation.String(t.req.Operation),
		span.Region.String(t.Self), span.Hops.Int(t.hops), span.Way.String(t.way(reply)))
	if reply.Home != "" {
		sp.SetAttributes(span.HomeRegion.String(reply.Home), span.State.String(reply.State.String()), span.Replayed.Bool(reply.Replayed))
	}
	if !claim.Answered(err) || errors.Is(err, ErrHomeUnavailable) {
		span.Fail(sp, err)
	}
}

func (t *trip) way(reply *claim.Reply) string {
	switch {
	case t.remembered:
		return span.WayReplica
	case reply.Home != "" && reply.Home != t.Self && reply.ServedBy == t.Self:
		return span.WayDeputy
	case t.hops > 0:
		return span.WayForward
	case t.pinRead && t.registrar != t.Self:
		return span.WayRegistrar
	default:
		return span.WayLocal
	}
}
