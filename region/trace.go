package region

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
	"github.com/homeward-io/homeward/internal/span"
)

// forwarding begins the span of one hop.
func forwarding(ctx context.Context, home string, hop int) (context.Context, span.Span) {
	ctx, sp := span.Client(ctx, span.Forward)
	if sp.IsRecording() {
		sp.SetAttributes(span.HomeRegion.String(home), span.Hop.Int(hop))
	}
	return ctx, sp
}

func (p *Peers) forwarded(ctx context.Context, sp span.Span, home, call string, began time.Time, err error) {
	outcome := "answered"
	for _, none := range []error{ErrNoNode, ErrNoAnswer, ErrPeerFailed, ErrRefused, ErrHopLimit} {
		if errors.Is(err, none) {
			outcome = "failed"
		}
	}
	p.trips.Took(ctx, time.Since(began), home, call, outcome)
	if !answered(err) {
		span.Fail(sp, err)
	}
	sp.End()
}

// missed records a node that gave no answer.
func missed(ctx context.Context, node Node) {
	if sp := span.Current(ctx); sp.IsRecording() {
		span.Event(sp, "a node gave no answer", span.Node.String(node.Name))
	}
}

// answered: err is the home's answer, or caused by the caller.
func answered(err error) bool {
	var wrong *WrongHomeError
	return claim.Answered(err) || errors.As(err, &wrong)
}

// traced gives each RPC a span in the trace of its sender. Handler.fail decides which
// errors are failures.
func (h *Handler) traced(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, sp := span.Server(ctx, req.Header(), span.Home, time.Now())
		defer sp.End()
		if sp.IsRecording() {
			sp.SetAttributes(span.Region.String(h.c.Self), span.RPC.String(req.Spec().Procedure))
			if m, ok := req.Any().(*peerv1.ExecuteRequest); ok {
				sp.SetAttributes(span.Tenant.String(m.GetTenant()), span.Entry.String(m.GetEntry()), span.Hop.Int64(int64(m.GetHops())))
			}
		}
		return next(ctx, req)
	}
}

func failed(ctx context.Context, err error) {
	if !answered(err) {
		span.Fail(span.Current(ctx), err)
	}
}
