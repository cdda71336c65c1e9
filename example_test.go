package homeward_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/homeward-io/homeward"
)

// opened is a store of an example's own.
func opened() (h *homeward.Homeward, done func()) {
	dir, err := os.MkdirTemp("", "homeward-example-")
	if err != nil {
		panic(err)
	}
	h, err = homeward.Open(context.Background(), homeward.Embedded(dir), homeward.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	return h, func() {
		_ = h.Close(context.Background())
		_ = os.RemoveAll(dir)
	}
}

func ExampleHomeward_Do() {
	h, done := opened()
	defer done()
	op := homeward.Op{Tenant: "acme", Name: "ship", Key: "order-7", Request: []byte("one book")}
	for range 2 {
		reply, err := h.Do(context.Background(), op, func(context.Context, homeward.Attempt) homeward.Outcome {
			fmt.Println("shipping")
			return homeward.Done{Reply: []byte("parcel 12")}
		})
		fmt.Println(reply.State, string(reply.Body), reply.Replayed, err)
	}
	op.Request = []byte("two books")
	_, err := h.Do(context.Background(), op, nil)
	fmt.Println(err)
	// Output:
	// shipping
	// done parcel 12 false <nil>
	// done parcel 12 true <nil>
	// claim: the key was first used with a different request
}

func ExampleHomeward_Middleware() {
	h, done := opened()
	defer done()
	orders := 0
	handler := h.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", orders)
	}))
	for range 2 {
		r := httptest.NewRequest("POST", "/v1/orders", strings.NewReader(`{"item":"book"}`))
		r.Header.Set("Idempotency-Key", "order-7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Result().Body)
		fmt.Printf("%d %s %q\n", w.Code, body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 201 order 1 ""
	// 201 order 1 "true"
}

func ExampleHomeward_Interceptor() {
	h, done := opened()
	defer done()
	const procedure = "/greet.v1.GreetService/Greet"
	calls := 0
	server := httptest.NewServer(connect.NewUnaryHandler(procedure,
		func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			calls++
			return connect.NewResponse(wrapperspb.String(fmt.Sprintf("hello %s, call %d", r.Msg.GetValue(), calls))), nil
		}, connect.WithInterceptors(h.Interceptor())))
	defer server.Close()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](server.Client(), server.URL+procedure)
	for range 2 {
		r := connect.NewRequest(wrapperspb.String("Ada"))
		r.Header().Set("Idempotency-Key", "greeting-1")
		reply, err := client.CallUnary(context.Background(), r)
		fmt.Println(reply.Msg.GetValue(), err)
	}
	// Output:
	// hello Ada, call 1 <nil>
	// hello Ada, call 1 <nil>
}

// It needs a database: examples/transaction is the whole program, with its test.
func ExampleHomeward_DoTx() {
	ctx := context.Background()
	var h *homeward.Homeward // homeward.Open(ctx, homeward.Postgres(url))
	var pool *pgxpool.Pool   // of the same database
	var reply homeward.Reply
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		op := homeward.Op{Tenant: "acme", Name: "order", Key: "order-7", Request: []byte("one book")}
		reply, err = h.DoTx(ctx, tx, op, func(tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, "INSERT INTO orders (item) VALUES ('book')")
			return []byte("ordered"), err
		})
		return err
	})
	fmt.Println(string(reply.Body), err)
}
