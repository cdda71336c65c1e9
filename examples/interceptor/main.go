// Command interceptor serves an RPC by connect-go, in the protocols Connect, gRPC and gRPC-Web, that
// does its work once for each key:
//
//	go run ./examples/interceptor --data ./greetings-data
//	curl -i http://127.0.0.1:8080/greet.v1.GreetService/Greet -H 'Idempotency-Key: g-1' -H 'Content-Type: application/json' -d '"Ada"'
//
// The messages are of package wrapperspb, so that the program needs no generated code. With code of
// protoc-gen-connect-go pass the same option to its New…Handler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/homeward-io/homeward"
)

const greet = "/greet.v1.GreetService/Greet"

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address of the service")
	data := flag.String("data", "greetings-data", "directory of the claims")
	flag.Parse()
	ctx := context.Background()
	h, err := homeward.Open(ctx, homeward.Embedded(*data))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: api(h), ReadTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	log.Fatal(errors.Join(server.ListenAndServe(), h.Close(ctx)))
}

// api is the program's RPC service.
func api(h *homeward.Homeward) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, answer, connect.WithInterceptors(h.Interceptor())))
	return mux
}

var greetings atomic.Int64

// answer is a procedure as it would be without Homeward.
func answer(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	if r.Msg.GetValue() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("say who you are")) // refused: every retry reads it
	}
	return connect.NewResponse(wrapperspb.String(fmt.Sprintf("Hello, %s. You are number %d.", r.Msg.GetValue(), greetings.Add(1)))), nil
}
