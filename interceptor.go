package homeward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/homeward-io/homeward/claim"
)

// InterceptorOption changes what [Homeward.Interceptor] does.
type InterceptorOption func(*interceptor)

// CallerOf names whose key an RPC carries, from who is logged in, as [TenantOf] does. Without it, and
// where it returns "", all callers share their keys, and a retry must carry the same Authorization:
// with a renewed or a corrected one it is failed_precondition, also after unauthenticated.
func CallerOf(of func(context.Context, connect.AnyRequest) string) InterceptorOption {
	return func(i *interceptor) { i.tenant = of }
}

// RepeatableProcedure says of which procedures a call may run again that an earlier run may have done,
// see [Op].Repeatable. The name is as in "/acme.orders.v1.OrderService/Place".
func RepeatableProcedure(names ...string) InterceptorOption {
	return func(i *interceptor) { i.repeatable = append(i.repeatable, names...) }
}

// Interceptor guards the unary RPCs of a connect-go handler that carry an Idempotency-Key, in any of its
// protocols: Connect, gRPC and gRPC-Web. The others pass untouched, and so do calls of a client.
//
//	path, handler := ordersv1connect.NewOrderServiceHandler(server, connect.WithInterceptors(h.Interceptor()))
//
// A retry gets the message, the headers and trailers, or the error, of the first call, with
// Idempotent-Replayed: true. The message is the same by its fields; a codec may spell it in
// another way. It reaches interceptors outside of this one as a dynamic message. One of more than a MiB is
// not kept: the procedure has run, and each caller gets data_loss, which says so. An error's code says
// what it means:
//
//	none                                              done: replayed
//	invalid_argument, not_found, already_exists,      refused: replayed
//	failed_precondition, out_of_range, unimplemented
//	unauthenticated, permission_denied,               released: the next call runs the procedure again
//	resource_exhausted, aborted
//	these and already_exists, of a recovery           unknown: it says nothing about the attempt before, or
//	                                                  conflicts with that
//	any other, a panic                                unknown: replayed, or, of a RepeatableProcedure,
//	                                                  returned, and the next call runs it again
//
// A refusal or release that is returned when the context has ended is as a panic. An outcome that
// could not be recorded is not returned: its caller gets our own unknown.
//
// In an attempt of the same key and caller, as of a Middleware around it, a call passes: it is guarded
// already.
//
// A stream is no one reply. One with an Idempotency-Key is refused with invalid_argument before its
// handler runs, as it would not be guarded.
//
// What Interceptor answers by itself: invalid_argument for a key that cannot be read,
// failed_precondition for one of another request or past its day, aborted while another call is
// under way, unavailable where the store gives no answer, and unknown for an outcome that is.
func (h *Homeward) Interceptor(options ...InterceptorOption) connect.Interceptor {
	i := &interceptor{Homeward: h}
	for _, o := range options {
		o(i)
	}
	return i
}

type interceptor struct {
	*Homeward
	tenant     func(context.Context, connect.AnyRequest) string
	repeatable []string
}

var errStream = errors.New("a stream cannot be guarded by an Idempotency-Key; send it without one")

// WrapStreamingClient implements connect.Interceptor.
func (*interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (*interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if len(conn.RequestHeader().Values(keyHeader)) > 0 {
			return connect.NewError(connect.CodeInvalidArgument, errStream)
		}
		return next(ctx, conn)
	}
}

// deterministic is how messages are compared and kept.
var deterministic = proto.MarshalOptions{Deterministic: true}

// WrapUnary implements connect.Interceptor.
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		keys := r.Header().Values(keyHeader)
		if r.Spec().IsClient || len(keys) == 0 {
			return next(ctx, r)
		}
		if len(keys) > 1 {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("send exactly one Idempotency-Key"))
		}
		key, err := claim.ParseKey(keys[0])
		if err != nil {
			return nil, rpcError(err)
		}
		message, ok := r.Any().(proto.Message)
		if !ok {
			return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("homeward: the request of %s is no message of Protocol Buffers, and cannot be compared with its retries; serve it without the Interceptor", r.Spec().Procedure))
		}
		body, err := deterministic.Marshal(message)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		op := Op{Key: key, Name: r.Spec().Procedure, Repeatable: slices.Contains(i.repeatable, r.Spec().Procedure)}
		credentials := r.Header().Values("Authorization")
		if i.tenant != nil {
			op.Tenant = i.tenant(ctx, r)
		}
		if op.Tenant != "" {
			credentials = nil // they may be renewed between two tries
		}
		identity, err := json.Marshal(struct {
			Credentials []string
			Message     []byte
		}{credentials, body})
		if err != nil {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
		req, err := op.request("RPC", "", identity)
		if err != nil {
			return nil, i.fail(ctx, r, err)
		}
		if i.under(ctx, req.Key) {
			return next(ctx, r)
		}
		var mine atomic.Pointer[ended]
		c := &call{op: &op}
		c.run = func(ctx context.Context, a Attempt) (claim.Outcome, error) {
			info := &callInfo{header: http.Header{}, trailer: http.Header{}}
			response, err := next(info.within(ctx), r)
			e := &ended{response: response, err: err, info: info}
			o, err := e.outcome(ctx, c, a.Recovery)
			e.means = o
			mine.Store(e)
			return o, err
		}
		reply, err := i.do(ctx, req, c)
		var unknown *claim.UnknownError
		switch e := mine.Load(); {
		case err == nil:
			return readResponse(ctx, &reply.Response, reply.Replayed)
		case errors.As(err, &unknown) && e != nil && staysOpen(e.means):
			return readResponse(ctx, &e.own, false) // more than we could say; it is not final
		}
		return nil, i.fail(ctx, r, err)
	}
}

// fail is what a caller gets of err. What is the program's fault is in its log.
func (i *interceptor) fail(ctx context.Context, r connect.AnyRequest, err error) error {
	failed := rpcError(err)
	if connect.CodeOf(failed) == connect.CodeInternal {
		i.c.log.ErrorContext(ctx, "a guarded RPC failed unexpectedly", "procedure", r.Spec().Procedure, "error", err)
	}
	return failed
}

// ended is how a procedure ended.
type ended struct {
	response connect.AnyResponse
	err      error
	info     *callInfo
	means    claim.Outcome  // what it was taken for
	own      claim.Response // what a caller reads of err, whether it is kept or not
}

// callInfo is where a procedure without Request and Response puts its headers. connect's own is read
// when the interceptor has returned, and a procedure that goes on after its lease would write to it
// meanwhile.
type callInfo struct {
	connect.CallInfo
	header, trailer http.Header
}

func (i *callInfo) ResponseHeader() http.Header  { return i.header }
func (i *callInfo) ResponseTrailer() http.Header { return i.trailer }

func (i *callInfo) kept() []claim.HeaderField {
	return append(keep(ofHeader, i.header), keep(ofTrailer, i.trailer)...)
}

// within returns ctx with i in the place of connect's.
func (i *callInfo) within(ctx context.Context) context.Context {
	outer, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return ctx
	}
	i.CallInfo = outer
	return infoContext{ctx, i}
}

// infoContext answers with info wherever its Context has the one that info stands for: the key is
// connect's.
type infoContext struct {
	context.Context
	info *callInfo
}

func (c infoContext) Value(key any) any {
	v := c.Context.Value(key)
	if info, ok := v.(connect.CallInfo); ok && info == c.info.CallInfo {
		return c.info
	}
	return v
}

// wireError is an error of a procedure as a claim has it.
type wireError struct {
	Code    connect.Code `json:"code"`
	Message string       `json:"message"`
	Details []wireDetail `json:"details,omitempty"`
}

type wireDetail struct {
	Type  string `json:"type"`
	Value []byte `json:"value"`
}

const (
	typeMessage = "application/proto"
	typeError   = "application/vnd.homeward.rpc-error+json"
	// ofHeader, ofTrailer and ofMeta begin the names of a response's headers and trailers and of an
	// error's Meta, ofMessage is the name of a message's type.
	ofHeader, ofTrailer, ofMeta, ofMessage = "h-", "t-", "m-", "message"
)

// codes of errors that are a no. Any other is unknown.
var (
	refusals = []connect.Code{
		connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeOutOfRange, connect.CodeUnimplemented,
	}
	releases = []connect.Code{connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeResourceExhausted, connect.CodeAborted}
)

func (e *ended) outcome(ctx context.Context, c *call, recovery bool) (claim.Outcome, error) {
	if e.err == nil {
		r, err := storedMessage(e.response, e.info)
		return &claim.Done{Response: r}, err
	}
	code := connect.CodeOf(e.err)
	r, err := storedError(e.err, e.info)
	e.own = r
	reason := "code_" + code.String()
	refused, released := slices.Contains(refusals, code), slices.Contains(releases, code)
	switch {
	case (refused || released) && ctx.Err() != nil:
		return c.broken(reasonLate), err // as of a handler
	case recovery && (released || code == connect.CodeAlreadyExists):
		return &claim.Unknown{Reason: reason}, err // as of a handler
	case refused:
		return &claim.Refused{Response: r, Reason: reason}, err
	case released:
		return &claim.Released{Response: r, Reason: reason}, err
	case c.op.Repeatable:
		return &claim.Unknown{Reason: reason}, err
	default:
		return &claim.Unknown{Reason: reason, GiveUp: &claim.GivenUp{Response: r}}, err
	}
}

func storedMessage(response connect.AnyResponse, info *callInfo) (claim.Response, error) {
	r := claim.Response{Status: statusDone, Header: []claim.HeaderField{{Name: "Content-Type", Value: typeMessage}}}
	message, ok := response.Any().(proto.Message)
	if !ok {
		return notKept(errors.New("its reply is no message of Protocol Buffers and is not kept"))
	}
	body, err := deterministic.Marshal(message)
	if err == nil && len(body) > maxReply {
		err = errTooLong
	}
	if err != nil {
		return notKept(err)
	}
	r.Body = body
	r.Header = append(r.Header, claim.HeaderField{Name: ofMessage, Value: string(message.ProtoReflect().Descriptor().FullName())})
	r.Header = append(r.Header, slices.Concat(keep(ofHeader, response.Header()), keep(ofTrailer, response.Trailer()), info.kept())...)
	return r, nil
}

// notKept is what each caller reads of a procedure that has run and whose reply cannot be kept.
func notKept(why error) (claim.Response, error) {
	r, err := storedError(connect.NewError(connect.CodeDataLoss, fmt.Errorf("the procedure has run, and %w", why)), &callInfo{})
	return r, errors.Join(why, err)
}

func storedError(failed error, info *callInfo) (claim.Response, error) {
	e := wireError{Code: connect.CodeOf(failed), Message: failed.Error()}
	var meta []claim.HeaderField
	if rich := (*connect.Error)(nil); errors.As(failed, &rich) {
		e.Message = rich.Message()
		meta = keep(ofMeta, rich.Meta())
		for _, d := range rich.Details() {
			e.Details = append(e.Details, wireDetail{d.Type(), d.Bytes()})
		}
	}
	r := claim.Response{Status: statusRefused, Header: slices.Concat([]claim.HeaderField{{Name: "Content-Type", Value: typeError}}, meta, info.kept())}
	body, err := json.Marshal(e)
	if err == nil && len(body) > maxReply {
		body, err = json.Marshal(wireError{Code: e.Code, Message: "the error was too long to be kept"})
	}
	r.Body = body
	return r, err
}

// addKept adds to h what r has kept under names with that prefix.
func addKept(h http.Header, prefix string, r *claim.Response) {
	for _, f := range r.Header {
		if name, ok := strings.CutPrefix(f.Name, prefix); ok {
			h.Add(name, f.Value)
		}
	}
}

// readResponse undoes storedMessage and storedError. A claim that stayed unknown has neither.
func readResponse(ctx context.Context, r *claim.Response, replayed bool) (connect.AnyResponse, error) {
	switch r.Field("Content-Type") {
	case typeMessage:
		kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(r.Field(ofMessage)))
		if err != nil {
			return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("homeward: the reply that is kept is a %s, which this program does not have; import its package", r.Field(ofMessage)))
		}
		message := dynamicpb.NewMessage(kind.Descriptor())
		if err := proto.Unmarshal(r.Body, message); err != nil {
			return nil, connect.NewError(connect.CodeDataLoss, fmt.Errorf("homeward: the reply that is kept cannot be read: %w", err))
		}
		response := connect.NewResponse(message)
		addKept(response.Header(), ofHeader, r)
		addKept(response.Trailer(), ofTrailer, r)
		if replayed {
			response.Header().Set(replayedHeader, "true")
		}
		return response, nil
	case typeError:
		var e wireError
		if err := json.Unmarshal(r.Body, &e); err != nil {
			return nil, connect.NewError(connect.CodeDataLoss, fmt.Errorf("homeward: the error that is kept cannot be read: %w", err))
		}
		failed := connect.NewError(e.Code, errors.New(e.Message))
		addKept(failed.Meta(), ofMeta, r)
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok { // which connect sends beside an error
			addKept(info.ResponseHeader(), ofHeader, r)
			addKept(info.ResponseTrailer(), ofTrailer, r)
		}
		for _, d := range e.Details {
			detail, err := connect.NewErrorDetail(&anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: d.Value})
			if err == nil {
				failed.AddDetail(detail)
			}
		}
		if replayed {
			failed.Meta().Set(replayedHeader, "true")
		}
		return nil, failed
	default:
		return nil, connect.NewError(connect.CodeUnknown, ErrUnknown)
	}
}

// rpcError is an error of [Homeward.do] as a caller gets it.
func rpcError(err error) error {
	p := problemOf(err)
	code := connect.CodeInternal
	var (
		key     *claim.KeyError
		inUse   *claim.InUseError
		unknown *claim.UnknownError
		expired *claim.ExpiredError
	)
	switch {
	case errors.As(err, &key):
		code = connect.CodeInvalidArgument
	case errors.Is(err, claim.ErrMismatch), errors.As(err, &expired):
		code = connect.CodeFailedPrecondition
	case errors.As(err, &inUse):
		code = connect.CodeAborted
	case errors.As(err, &unknown):
		code = connect.CodeUnknown
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case errors.Is(err, claim.ErrUnavailable), errors.Is(err, claim.ErrHomeUnreachable), errors.Is(err, claim.ErrFingerprintVersion):
		code = connect.CodeUnavailable
	}
	failed := connect.NewError(code, errors.New(p.Detail))
	if wait := p.RetryAfterHeader(); wait != "" {
		failed.Meta().Set("Retry-After", wait)
	}
	return failed
}
