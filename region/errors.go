package region

import (
	"context"
	"errors"
	"fmt"
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
	// ErrNoNode: no live node of the region is known. Nothing was sent.
	ErrNoNode = errors.New("region: no live node is known")
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

// toConnect maps the result of a handler to a Connect error. What reply holds of the
// key is sent along. known is false for an error outside the contract: its text is not
// sent.
func toConnect(err error, reply *claim.Reply) (wire *connect.Error, known bool) {
	say := func(code connect.Code, text string, p *peerv1.Problem) (*connect.Error, bool) {
		p.Home, p.FirstUse, p.ExpiresAt = reply.Home, toTimestamp(reply.FirstUse), toTimestamp(reply.ExpiresAt)
		return problem(code, text, p), true
	}
	var (
		wrongHome *WrongHomeError
		inUse     *claim.InUseError
		unknown   *claim.UnknownError
		expired   *claim.ExpiredError
		withheld  *claim.WithheldError
		bad       *badRequestError
		stranger  *notAdmittedError
	)
	switch {
	case errors.As(err, &wrongHome):
		return say(connect.CodeFailedPrecondition, "wrong home", &peerv1.Problem{Kind: &peerv1.Problem_WrongHome{WrongHome: &peerv1.WrongHome{Home: wrongHome.Home}}})
	case errors.As(err, &inUse):
		return say(connect.CodeAborted, "in use", &peerv1.Problem{Kind: &peerv1.Problem_InUse{InUse: &peerv1.InUse{RetryAfterMs: millis(inUse.RetryAfter)}}})
	case errors.As(err, &unknown):
		return say(connect.CodeUnavailable, "outcome unknown", &peerv1.Problem{Kind: &peerv1.Problem_OutcomeUnknown{OutcomeUnknown: &peerv1.OutcomeUnknown{RetryAfterMs: millis(unknown.RetryAfter)}}})
	case errors.As(err, &expired):
		return say(connect.CodeFailedPrecondition, "expired", &peerv1.Problem{Kind: &peerv1.Problem_Expired{Expired: &peerv1.Expired{FirstUse: toTimestamp(expired.FirstUse)}}})
	case errors.As(err, &withheld):
		return say(connect.CodeUnavailable, "withheld", &peerv1.Problem{Kind: &peerv1.Problem_Withheld{Withheld: &peerv1.Withheld{RetryAfterMs: millis(withheld.RetryAfter)}}})
	case errors.Is(err, claim.ErrMismatch):
		return say(connect.CodeAlreadyExists, "mismatch", &peerv1.Problem{Kind: &peerv1.Problem_Mismatch{Mismatch: &peerv1.Mismatch{}}})
	case errors.Is(err, claim.ErrNeedPin):
		return say(connect.CodeFailedPrecondition, "need pin", &peerv1.Problem{Kind: &peerv1.Problem_NeedPin{NeedPin: &peerv1.NeedPin{}}})
	case errors.Is(err, claim.ErrHomeUnreachable):
		return say(connect.CodeUnavailable, "home unreachable", &peerv1.Problem{Kind: &peerv1.Problem_HomeUnreachable{HomeUnreachable: &peerv1.HomeUnreachable{}}})
	case errors.Is(err, claim.ErrUnavailable):
		return say(connect.CodeUnavailable, "store unavailable", &peerv1.Problem{Kind: &peerv1.Problem_StoreUnavailable{StoreUnavailable: &peerv1.StoreUnavailable{}}})
	case errors.Is(err, claim.ErrUnknownTenant):
		return say(connect.CodeNotFound, "unknown tenant", &peerv1.Problem{Kind: &peerv1.Problem_UnknownTenant{UnknownTenant: &peerv1.UnknownTenant{}}})
	case errors.Is(err, claim.ErrFingerprintVersion):
		return say(connect.CodeUnimplemented, "fingerprint version", &peerv1.Problem{Kind: &peerv1.Problem_FingerprintVersion{FingerprintVersion: &peerv1.FingerprintVersion{}}})
	case errors.Is(err, ErrHopLimit):
		return say(connect.CodeFailedPrecondition, "hop limit", &peerv1.Problem{Kind: &peerv1.Problem_HopLimit{HopLimit: &peerv1.HopLimit{}}})
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

func problem(code connect.Code, text string, p *peerv1.Problem) *connect.Error {
	e := connect.NewError(code, errors.New(text))
	if d, err := connect.NewErrorDetail(p); err == nil {
		e.AddDetail(d)
	}
	return e
}

// fromConnect is toConnect's inverse, on the caller's side. final reports that a node
// of the region answered, or that no other node could answer otherwise.
func fromConnect(err error) (_ error, final bool) {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err), false
	}
	if !connect.IsWireError(err) {
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
		return fmt.Errorf("%w: the peer said %v: %s", ErrNoAnswer, wire.Code(), wire.Message()), false
	default:
		// CodeResourceExhausted is among these: a response over MaxMessageBytes is
		// refused only after the request ran.
		return fmt.Errorf("%w (%v)", ErrPeerFailed, wire.Code()), true
	}
}

// fromProblem returns nil for a kind that this build does not know.
func fromProblem(p *peerv1.Problem) error {
	switch k := p.GetKind().(type) {
	case *peerv1.Problem_WrongHome:
		return &WrongHomeError{Home: k.WrongHome.GetHome()}
	case *peerv1.Problem_InUse:
		return &claim.InUseError{RetryAfter: time.Duration(k.InUse.GetRetryAfterMs()) * time.Millisecond}
	case *peerv1.Problem_OutcomeUnknown:
		return &claim.UnknownError{RetryAfter: time.Duration(k.OutcomeUnknown.GetRetryAfterMs()) * time.Millisecond}
	case *peerv1.Problem_Expired:
		return &claim.ExpiredError{FirstUse: fromTimestamp(k.Expired.GetFirstUse())}
	case *peerv1.Problem_Mismatch:
		return claim.ErrMismatch
	case *peerv1.Problem_NeedPin:
		return claim.ErrNeedPin
	case *peerv1.Problem_StoreUnavailable:
		return claim.ErrUnavailable
	case *peerv1.Problem_HomeUnreachable:
		return claim.ErrHomeUnreachable
	case *peerv1.Problem_UnknownTenant:
		return claim.ErrUnknownTenant
	case *peerv1.Problem_FingerprintVersion:
		return claim.ErrFingerprintVersion
	case *peerv1.Problem_Withheld:
		return &claim.WithheldError{RetryAfter: time.Duration(k.Withheld.GetRetryAfterMs()) * time.Millisecond}
	case *peerv1.Problem_HopLimit:
		return ErrHopLimit
	default:
		return nil
	}
}

// millis rounds up, so that a caller does not come back too early.
func millis(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// toTimestamp and fromTimestamp map the zero time, which protobuf does not have.
func toTimestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func fromTimestamp(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
