package homeward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/homeward-io/homeward/claim"
)

type text = wrapperspb.StringValue

const (
	place  = "/acme.orders.v1.OrderService/Place"
	simple = "/acme.orders.v1.OrderService/Simple"
	watch  = "/acme.orders.v1.OrderService/Watch"
)

// orders is a server of RPCs behind an interceptor.
type orders struct {
	*httptest.Server
	runs atomic.Int32
	fail func() error
}

func newOrders(t *testing.T, h *Homeward, options ...InterceptorOption) *orders {
	t.Helper()
	o := &orders{fail: func() error { return nil }}
	guard := connect.WithInterceptors(h.Interceptor(options...))
	mux := http.NewServeMux()
	mux.Handle(place, connect.NewUnaryHandler(place, func(ctx context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
		run := o.runs.Add(1)
		_, guarded := AttemptOf(ctx)
		if err := o.fail(); err != nil {
			return nil, err
		}
		res := connect.NewResponse(wrapperspb.String(fmt.Sprint(r.Msg.GetValue(), " ", run, " ", guarded)))
		res.Header().Set("Order", "1")
		res.Header().Set("Set-Cookie", "s=1")
		res.Trailer().Set("Cost", "2")
		return res, nil
	}, guard))
	mux.Handle(simple, connect.NewUnaryHandlerSimple(simple, func(ctx context.Context, r *text) (*text, error) {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		info.ResponseHeader().Set("Order", fmt.Sprint(o.runs.Add(1)))
		return r, nil
	}, guard))
	mux.Handle(watch, connect.NewServerStreamHandler(watch, func(_ context.Context, r *connect.Request[text], s *connect.ServerStream[text]) error {
		o.runs.Add(1)
		return s.Send(r.Msg)
	}, guard))
	o.Server = httptest.NewUnstartedServer(mux)
	o.EnableHTTP2 = true
	o.StartTLS()
	t.Cleanup(o.Close)
	return o
}

// ask calls a procedure, with pairs of headers.
func (o *orders) ask(t *testing.T, procedure, value string, header []string, options ...connect.ClientOption) (*connect.Response[text], error) {
	t.Helper()
	r := connect.NewRequest(wrapperspb.String(value))
	for i := 0; i < len(header); i += 2 {
		r.Header().Add(header[i], header[i+1])
	}
	return connect.NewClient[text, text](o.Client(), o.URL+procedure, options...).CallUnary(t.Context(), r)
}

func key(k string) []string { return []string{"Idempotency-Key", k} }

func TestAProcedureRunsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *Homeward) {
		o := newOrders(t, h)
		for name, options := range map[string][]connect.ClientOption{
			"connect": nil, "json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpcweb": {connect.WithGRPCWeb()},
		} {
			before := o.runs.Load()
			first, err := o.ask(t, place, name, key(name), options...)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(name, " ", before+1, " true"), first.Msg.GetValue())
			require.Empty(t, first.Header().Get("Idempotent-Replayed"))
			again, err := o.ask(t, place, name, key(name), options...)
			require.NoError(t, err)
			require.Equal(t, first.Msg.GetValue(), again.Msg.GetValue())
			require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
			for _, r := range []*connect.Response[text]{first, again} {
				require.Equal(t, "1", r.Header().Get("Order"))
				require.Equal(t, "2", r.Trailer().Get("Cost"))
				require.Empty(t, r.Header().Get("Set-Cookie"))
			}
			require.Equal(t, before+1, o.runs.Load())
		}
		_, err := o.ask(t, place, "other", key("connect"))
		require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
		_, err = o.ask(t, place, "connect", append(key("connect"), "Authorization", "x"))
		require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
		_, err = o.ask(t, simple, "connect", key("connect"))
		require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err))
		_, err = o.ask(t, place, "x", append(key("a"), key("b")...))
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
		_, err = o.ask(t, place, "x", key("a b"))
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))

		// Without a key it passes.
		runs := o.runs.Load()
		for range 2 {
			r, err := o.ask(t, place, "free", nil)
			require.NoError(t, err)
			require.Contains(t, r.Msg.GetValue(), "false")
		}
		require.Equal(t, runs+2, o.runs.Load())

		// A handler without requests and responses keeps its headers elsewhere.
		for range 2 {
			r, err := o.ask(t, simple, "simple", key("simple"))
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprint(runs + 3)}, r.Header()["Order"])
		}
	})
}

// An error's code says what it means, and is kept with its details.
func TestCodes(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	once, again := newOrders(t, h), newOrders(t, h, RepeatableProcedure(place))
	const replayed, released = "replayed", "runs again"
	for code, want := range map[connect.Code][2]string{
		connect.CodeInvalidArgument: {replayed, replayed}, connect.CodeNotFound: {replayed, replayed}, connect.CodeAlreadyExists: {replayed, replayed},
		connect.CodeFailedPrecondition: {replayed, replayed}, connect.CodeOutOfRange: {replayed, replayed}, connect.CodeUnimplemented: {replayed, replayed},
		connect.CodeUnauthenticated: {released, released}, connect.CodePermissionDenied: {released, released},
		connect.CodeResourceExhausted: {released, released}, connect.CodeAborted: {released, released},
		connect.CodeInternal: {replayed, released}, connect.CodeUnavailable: {replayed, released}, connect.CodeUnknown: {replayed, released},
		connect.CodeCanceled: {replayed, released}, connect.CodeDeadlineExceeded: {replayed, released}, connect.CodeDataLoss: {replayed, released},
	} {
		for i, o := range []*orders{once, again} {
			k := key(fmt.Sprintf("%v-%d", code, i))
			o.fail = func() error {
				err := connect.NewError(code, errors.New("as it is"))
				detail, _ := connect.NewErrorDetail(durationpb.New(time.Minute))
				err.AddDetail(detail)
				err.Meta().Set("Hint", "x")
				return err
			}
			_, first := o.ask(t, place, "x", k)
			require.Equal(t, code, connect.CodeOf(first), "%v %d", code, i)
			o.fail = func() error { return nil }
			if want[i] == released {
				require.Eventually(t, func() bool {
					_, err := o.ask(t, place, "x", k)
					return err == nil
				}, 10*time.Second, 5*time.Millisecond, "%v %d", code, i)
				continue
			}
			_, err := o.ask(t, place, "x", k)
			var kept *connect.Error
			require.ErrorAs(t, err, &kept)
			require.Equal(t, code, kept.Code())
			require.Equal(t, "as it is", kept.Message())
			require.Equal(t, "x", kept.Meta().Get("Hint"))
			require.Equal(t, "true", kept.Meta().Get("Idempotent-Replayed"))
			require.Len(t, kept.Details(), 1)
			value, err := kept.Details()[0].Value()
			require.NoError(t, err)
			require.Equal(t, time.Minute, value.(*durationpb.Duration).AsDuration())
		}
	}
}

func TestAProcedurePanics(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	o := newOrders(t, h)
	o.fail = func() error { panic("boom") }
	for range 2 {
		_, err := o.ask(t, place, "x", key("k"))
		require.Equal(t, connect.CodeUnknown, connect.CodeOf(err))
		require.ErrorContains(t, err, ErrUnknown.Error())
	}
	require.EqualValues(t, 1, o.runs.Load())
}

// A stream passes without a key, and is refused with one.
func TestStreams(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	o := newOrders(t, h)
	ask := func(header []string) (string, error) {
		r := connect.NewRequest(wrapperspb.String("x"))
		if header != nil {
			r.Header().Set(header[0], header[1])
		}
		s, err := connect.NewClient[text, text](o.Client(), o.URL+watch).CallServerStream(t.Context(), r)
		require.NoError(t, err)
		defer func() { _ = s.Close() }()
		got := ""
		for s.Receive() {
			got += s.Msg().GetValue()
		}
		return got, s.Err()
	}
	got, err := ask(nil)
	require.NoError(t, err)
	require.Equal(t, "x", got)
	_, err = ask(key("k"))
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	require.ErrorContains(t, err, "a stream cannot be guarded")
	require.EqualValues(t, 1, o.runs.Load())
}

// Callers have keys of their own. A client's calls pass.
func TestCallers(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	o := newOrders(t, h, CallerOf(func(_ context.Context, r connect.AnyRequest) string { return r.Header().Get("User") }))
	passes := connect.WithInterceptors(h.Interceptor())
	for _, user := range []string{"a", "b", "a"} {
		_, err := o.ask(t, place, "x", append(key("k"), "User", user, "Authorization", fmt.Sprint(o.runs.Load())), passes)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, o.runs.Load())
	require.NoError(t, h.Close(context.Background()))
	_, err := o.ask(t, place, "x", append(key("k2"), "User", "a"))
	require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
}

// ---- RPC
func TestAnRPCIsNotRecorded(t *testing.T) {
	h, m := unrecording(t)
	for _, failed := range []error{nil, connect.NewError(connect.CodeNotFound, errors.New("no such book"))} {
		o := newOrders(t, h)
		o.fail = func() error { return failed }
		k := key(fmt.Sprint(failed == nil))
		m.on.Store(true)
		_, err := o.ask(t, place, "v", k)
		m.on.Store(false)
		require.Equal(t, connect.CodeUnknown, connect.CodeOf(err))
		require.Eventually(t, func() bool {
			_, err = o.ask(t, place, "v", k)
			return connect.CodeOf(err) != connect.CodeAborted
		}, 20*time.Second, 20*time.Millisecond)
		require.Equal(t, connect.CodeUnknown, connect.CodeOf(err))
		require.EqualValues(t, 1, o.runs.Load())
	}
}

// As of a handler.
func TestARepeatedProcedureIsRefusedForNow(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	for _, code := range append([]connect.Code{connect.CodeAlreadyExists}, releases...) {
		o := newOrders(t, h, RepeatableProcedure(place))
		k := key(fmt.Sprint("for-now-", code))
		for _, refused := range []connect.Code{connect.CodeInternal, code} {
			o.fail = func() error { return connect.NewError(refused, errors.New("no")) }
			require.Eventually(t, func() bool {
				_, err := o.ask(t, place, "v", k)
				return connect.CodeOf(err) == refused
			}, 10*time.Second, 5*time.Millisecond, refused)
		}
		o.fail = func() error { return nil }
		require.Eventually(t, func() bool {
			_, err := o.ask(t, place, "v", k)
			return err == nil
		}, 10*time.Second, 5*time.Millisecond)
		rec, err := h.rows.store.Registrar(t.Context(), anyone)
		require.NoError(t, err)
		claimed, _, found, err := h.rows.store.Get(t.Context(), claim.Key{Tenant: anyone, Value: k[1]}, rec)
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, 1, claimed.Generation, "the provider's key is another one in the next generation")
	}
}

// A reply that is too long is not kept. The procedure has run all the same, and each caller reads that.
func TestALongReplyOfAProcedure(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	o := newOrders(t, h)
	for range 2 {
		_, err := o.ask(t, simple, strings.Repeat("v", maxReply+1), key("k"))
		require.Equal(t, connect.CodeDataLoss, connect.CodeOf(err), err)
		require.ErrorContains(t, err, "the procedure has run")
	}
	require.EqualValues(t, 1, o.runs.Load())
}

// A procedure that refuses when its time is over does not know what it refuses.
func TestAProcedureIsLate(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	for _, code := range []connect.Code{connect.CodeNotFound, connect.CodeAborted} {
		var runs atomic.Int32
		s := httptest.NewServer(connect.NewUnaryHandlerSimple(simple, func(ctx context.Context, _ *text) (*text, error) {
			runs.Add(1)
			<-ctx.Done()
			return nil, connect.NewError(code, errors.New("too late"))
		}, connect.WithInterceptors(h.Interceptor())))
		o := &orders{Server: s}
		for range 2 {
			_, err := o.ask(t, simple, "v", key(code.String()))
			require.Equal(t, connect.CodeUnknown, connect.CodeOf(err))
			require.NotContains(t, err.Error(), "too late")
		}
		require.EqualValues(t, 1, runs.Load())
		s.Close()
	}
}

// A procedure that goes on after its lease has nothing in its hands that connect sends.
func TestAProcedureGoesOn(t *testing.T) {
	h := open(t, Embedded(t.TempDir()), quick)
	var gone sync.WaitGroup
	answered := make(chan struct{})
	s := httptest.NewServer(connect.NewUnaryHandlerSimple(simple, func(ctx context.Context, r *text) (*text, error) {
		gone.Add(1)
		defer gone.Done()
		info, _ := connect.CallInfoForHandlerContext(ctx)
		<-ctx.Done()
		for {
			info.ResponseHeader().Set("Order", "1")
			info.ResponseTrailer().Set("Order", "1")
			select {
			case <-answered:
				return r, nil
			case <-time.After(time.Millisecond):
			}
		}
	}, connect.WithInterceptors(h.Interceptor())))
	defer s.Close()
	o := &orders{Server: s}
	for _, k := range []string{"a", "b"} {
		_, err := o.ask(t, simple, "v", key(k))
		require.Error(t, err) // unknown, or in use by who took the claim over
	}
	close(answered)
	gone.Wait()
}

// An error's headers are those that its retries read.
func TestHeadersOfErrors(t *testing.T) {
	h := open(t, Embedded(t.TempDir()))
	for name, code := range map[string]connect.Code{"no": connect.CodeNotFound, "unknown": connect.CodeInternal} {
		mux := http.NewServeMux()
		mux.Handle(simple, connect.NewUnaryHandlerSimple(simple, func(ctx context.Context, r *text) (*text, error) {
			info, _ := connect.CallInfoForHandlerContext(ctx)
			info.ResponseHeader().Set("Order", "7")
			info.ResponseHeader().Set("Set-Cookie", "s=1")
			info.ResponseTrailer().Set("Cost", "2")
			failed := connect.NewError(code, errors.New("no"))
			failed.Meta().Set("Set-Cookie", "s=2")
			failed.Meta().Set("Hint", "x")
			return nil, failed
		}, connect.WithInterceptors(h.Interceptor())))
		o := &orders{Server: httptest.NewUnstartedServer(mux)}
		o.EnableHTTP2 = true
		o.StartTLS()
		for protocol, options := range map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}} {
			for range 2 {
				_, err := o.ask(t, simple, "v", key(name+protocol), options...)
				var failed *connect.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, code, failed.Code())
				require.Equal(t, []string{"7"}, failed.Meta()["Order"], protocol)
				require.Equal(t, []string{"x"}, failed.Meta()["Hint"], protocol)
				require.Empty(t, failed.Meta()["Set-Cookie"], protocol)
				if protocol == "grpc" {
					require.Equal(t, []string{"2"}, failed.Meta()["Cost"])
				}
			}
		}
		o.Close()
	}
}
