package region

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
)

// This file maps the answers of claims to Connect and back; package admin makes its own
// refusals. The code is for the wire (metrics, proxies); the Problem detail identifies
// the answer.

// How a forward can fail beside the claim's own answers. Test with errors.Is; the
// package documentation explains each.
var (
	// ErrNoNode: gossip shows no live node of the region. Nothing was sent.
	ErrNoNode = errors.New("region: no live node")
	// ErrNoAnswer: no node answered. The request may or may not have run.
	ErrNoAnswer = errors.New("region: no node answered")
	// ErrPeerFailed: a node answered with an error outside the contract. The
	// request may or may not have run.
	ErrPeerFailed = errors.New("region: the peer failed; see its log for the reason")
	// ErrRefused: the peer took the request for malformed, or this node's
	// certificate does not let it send that, or it is too large to send. Nothing ran.
	ErrRefused = errors.New("region: the forward was refused")
	// ErrHopLimit: more than MaxHops forwards. Nothing ran.
	ErrHopLimit = errors.New("region: too many forwards; nodes disagree on the key's home")
)

// WrongHomeError: the node's region is not the key's home. Nothing ran.
type WrongHomeError struct {
	// Home is the key's home if the key names it, else "": read the pin.
	Home string
}

func (e *WrongHomeError) Error() string {
	if e.Home == "" {
		return "region: this region is not the key's home"
	}
	return "region: the key's home is " + e.Home
}

// badRequestError is how the handler refuses a malformed message.
type badRequestError struct{ reason string }

func (e *badRequestError) Error() string { return "bad request: " + e.reason }

// sentinels are the answers without data, as the wire has them.
var sentinels = []struct {
	err  error
	kind peerv1.Problem_Kind
	code connect.Code
}{
	{claim.ErrMismatch, peerv1.Problem_KIND_MISMATCH, connect.CodeAlreadyExists},
	{claim.ErrNeedPin, peerv1.Problem_KIND_NEED_PIN, connect.CodeFailedPrecondition},
	{claim.ErrHomeUnreachable, peerv1.Problem_KIND_HOME_UNREACHABLE, connect.CodeUnavailable},
	{claim.ErrUnavailable, peerv1.Problem_KIND_STORE_UNAVAILABLE, connect.CodeUnavailable},
	{claim.ErrUnknownTenant, peerv1.Problem_KIND_UNKNOWN_TENANT, connect.CodeNotFound},
	{claim.ErrFingerprintVersion, peerv1.Problem_KIND_FINGERPRINT_VERSION, connect.CodeUnimplemented},
	{ErrHopLimit, peerv1.Problem_KIND_HOP_LIMIT, connect.CodeFailedPrecondition},
}

// toProblem returns nil for an error that is no answer of a claim.
func toProblem(err error) (*peerv1.Problem, connect.Code) {
	var (
		wrongHome *WrongHomeError
		inUse     *claim.InUseError
		unknown   *claim.UnknownError
		expired   *claim.ExpiredError
		withheld  *claim.WithheldError
	)
	switch {
	case errors.As(err, &wrongHome):
		return &peerv1.Problem{Kind: peerv1.Problem_KIND_WRONG_HOME, RealHome: wrongHome.Home}, connect.CodeFailedPrecondition
	case errors.As(err, &inUse):
		return &peerv1.Problem{Kind: peerv1.Problem_KIND_IN_USE, RetryAfterMs: millis(inUse.RetryAfter)}, connect.CodeAborted
	case errors.As(err, &unknown):
		return &peerv1.Problem{Kind: peerv1.Problem_KIND_OUTCOME_UNKNOWN, RetryAfterMs: millis(unknown.RetryAfter)}, connect.CodeUnavailable
	case errors.As(err, &expired):
		return &peerv1.Problem{Kind: peerv1.Problem_KIND_EXPIRED, OriginalRequestAt: toTimestamp(expired.FirstUse)}, connect.CodeFailedPrecondition
	case errors.As(err, &withheld):
		return &peerv1.Problem{Kind: peerv1.Problem_KIND_WITHHELD, RetryAfterMs: millis(withheld.RetryAfter)}, connect.CodeUnavailable
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return &peerv1.Problem{Kind: s.kind}, s.code
		}
	}
	return nil, 0
}

// fromProblem returns nil for a kind that this build does not have.
func fromProblem(p *peerv1.Problem) error {
	after := time.Duration(min(max(p.GetRetryAfterMs(), 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	switch p.GetKind() {
	case peerv1.Problem_KIND_WRONG_HOME:
		return &WrongHomeError{Home: p.GetRealHome()}
	case peerv1.Problem_KIND_IN_USE:
		return &claim.InUseError{RetryAfter: after}
	case peerv1.Problem_KIND_OUTCOME_UNKNOWN:
		return &claim.UnknownError{RetryAfter: after}
	case peerv1.Problem_KIND_EXPIRED:
		return &claim.ExpiredError{FirstUse: fromTimestamp(p.OriginalRequestAt)}
	case peerv1.Problem_KIND_WITHHELD:
		return &claim.WithheldError{RetryAfter: after}
	default:
		for _, s := range sentinels {
			if p.GetKind() == s.kind {
				return s.err
			}
		}
		return nil
	}
}

// toConnect maps the result of a handler to a Connect error. The error carries what reply holds of
// the key. ok is false for an error outside the contract: its text is not sent.
func toConnect(err error, reply *claim.Reply) (wire *connect.Error, ok bool) {
	if p, code := toProblem(err); p != nil {
		p.Home, p.FirstUse, p.ExpiresAt = reply.Home, toTimestamp(reply.FirstUse), toTimestamp(reply.ExpiresAt)
		name := strings.TrimPrefix(p.Kind.String(), "KIND_")
		wire := connect.NewError(code, errors.New(strings.ToLower(strings.ReplaceAll(name, "_", " "))))
		if d, err := connect.NewErrorDetail(p); err == nil {
			wire.AddDetail(d)
		}
		return wire, true
	}
	var (
		bad      *badRequestError
		stranger *notAdmittedError
	)
	switch {
	case errors.As(err, &bad):
		return connect.NewError(connect.CodeInvalidArgument, errors.New(bad.reason)), true
	case errors.As(err, &stranger):
		return connect.NewError(connect.CodePermissionDenied, stranger), true
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("out of time")), true
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, errors.New("canceled")), true
	default:
		return connect.NewError(connect.CodeInternal, errors.New("internal error")), false
	}
}

// saidError is a claim's answer together with what the peer returned about the key.
type saidError struct {
	error
	reply claim.Reply
}

func (e *saidError) Unwrap() error { return e.error }

// apart returns what a peer returned about the key, the zero Reply if nothing, and its
// answer.
func apart(err error) (claim.Reply, error) {
	if said, ok := errors.AsType[*saidError](err); ok {
		return said.reply, said.error
	}
	return claim.Reply{}, err
}

// fromConnect is toConnect's inverse, on the caller's side. final reports that a node
// of the region answered, or that no other node could answer otherwise.
func fromConnect(err error) (_ error, final bool) {
	var wire *connect.Error
	if !errors.As(err, &wire) || !connect.IsWireError(err) {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err), false
	}
	for _, d := range wire.Details() {
		value, err := d.Value()
		if err != nil {
			continue
		}
		if p, ok := value.(*peerv1.Problem); ok {
			if said := fromProblem(p); said != nil {
				if p.GetHome() != "" {
					said = &saidError{said, claim.Reply{Home: p.GetHome(), FirstUse: fromTimestamp(p.FirstUse), ExpiresAt: fromTimestamp(p.ExpiresAt)}}
				}
				return said, true
			}
		}
	}
	switch wire.Code() {
	case connect.CodeInvalidArgument, connect.CodePermissionDenied:
		return fmt.Errorf("%w: %s", ErrRefused, wire.Message()), true
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		// The peer is stopping, or exceeded the time that we gave it.
		return fmt.Errorf("%w: the peer answered %v: %s", ErrNoAnswer, wire.Code(), wire.Message()), false
	default:
		// CodeResourceExhausted is among these: a response over MaxMessageBytes is
		// refused only after the request ran.
		return fmt.Errorf("%w (%v)", ErrPeerFailed, wire.Code()), true
	}
}

// millis rounds up, so that a caller does not come back too early.
func millis(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// toTimestamp and fromTimestamp map the zero time, which protobuf does not have. A timestamp that
// is no date, which only a broken peer sends, counts as none.
func toTimestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func fromTimestamp(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}
