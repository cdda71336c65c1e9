package region

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
)

// contractErrors is every answer that crosses between regions without loss. The
// peer tests send the same over a real connection.
var contractErrors = []error{
	filled[WrongHomeError](),
	&WrongHomeError{},
	filled[claim.InUseError](),
	filled[claim.UnknownError](),
	filled[claim.WithheldError](),
	filled[claim.ExpiredError](),
	claim.ErrMismatch,
	claim.ErrNeedPin,
	claim.ErrUnavailable,
	claim.ErrHomeUnreachable,
	claim.ErrUnknownTenant,
	claim.ErrFingerprintVersion,
	ErrHopLimit,
}

func filled[T any]() *T {
	v := new(T)
	claimtest.Fill(v)
	return v
}

// sameError compares sentinels by identity and typed errors by what they carry.
func sameError(a, b error) bool {
	return errors.Is(a, b) || reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.DeepEqual(a, b)
}

func TestEveryProblemKindIsCovered(t *testing.T) {
	seen := map[peerv1.Problem_Kind]bool{}
	for _, err := range contractErrors {
		wire, _ := toConnect(err, new(claim.Reply))
		if len(wire.Details()) != 1 {
			t.Fatalf("%v has %d details", err, len(wire.Details()))
		}
		value, _ := wire.Details()[0].Value()
		seen[value.(*peerv1.Problem).GetKind()] = true
	}
	for number, name := range peerv1.Problem_Kind_name {
		if kind := peerv1.Problem_Kind(number); kind != peerv1.Problem_KIND_UNSPECIFIED && !seen[kind] {
			t.Errorf("no error in contractErrors makes a %s", name)
		}
	}
}

func TestContractErrorsKeepTheirTextAtHome(t *testing.T) {
	const secret = "row us-east1/key-4711 of tenant globex"
	for _, want := range contractErrors {
		wire, ok := toConnect(fmt.Errorf("%s: %w", secret, want), new(claim.Reply))
		if !ok {
			t.Errorf("%v has no code", want)
		}
		if strings.Contains(wire.Error(), "globex") {
			t.Errorf("%v leaks what wrapped it: %v", want, wire)
		}
	}
	wire, ok := toConnect(errors.New(secret), new(claim.Reply))
	if ok || wire.Code() != connect.CodeInternal || strings.Contains(wire.Error(), "globex") || len(wire.Details()) != 0 {
		t.Errorf("an unknown error became %v, ok %v", wire, ok)
	}
}

func TestContextErrorsCrossAsCodes(t *testing.T) {
	for err, code := range map[error]connect.Code{
		context.Canceled:           connect.CodeCanceled,
		context.DeadlineExceeded:   connect.CodeDeadlineExceeded,
		&badRequestError{"no key"}: connect.CodeInvalidArgument,
	} {
		wire, ok := toConnect(fmt.Errorf("wrapped: %w", err), new(claim.Reply))
		if !ok || wire.Code() != code {
			t.Errorf("%v became %v", err, wire)
		}
	}
}

func TestWhatThePeerDidNotSayIsNoAnswer(t *testing.T) {
	inferred := connect.NewError(connect.CodeUnavailable, errors.New("connection refused"))
	for _, err := range []error{
		inferred,
		errors.New("no connect error at all"),
		connect.NewError(connect.CodeUnimplemented, errors.New("404 page not found")),
		connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded),
	} {
		got, final := fromConnect(err)
		if !errors.Is(got, ErrNoAnswer) || final {
			t.Errorf("%v became %v, final: %v", err, got, final)
		}
	}
	// A Problem in an error that did not come from the wire proves nothing.
	wire, _ := toConnect(claim.ErrMismatch, new(claim.Reply))
	if got, _ := fromConnect(wire); errors.Is(got, claim.ErrMismatch) {
		t.Error("a local error passed for the peer's")
	}
}

func TestMillisRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-time.Second: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 5 * time.Second: 5000,
	} {
		if got := millis(d); got != want {
			t.Errorf("millis(%v) = %d, want %d", d, got, want)
		}
	}
}
