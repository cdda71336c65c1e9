// Command middleware is an HTTP API that takes orders, each once:
//
//	go run ./examples/middleware --data ./orders-data
//	curl -i http://127.0.0.1:8080/v1/orders -H 'Idempotency-Key: order-1' -d '{"item":"book"}'
//
// The second curl reads the same order, with Idempotent-Replayed: true, also after kill -9 and a new
// start. With DATABASE_URL it keeps its claims in PostgreSQL, which any number of processes share.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/homeward-io/homeward"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address of the API")
	data := flag.String("data", "orders-data", "directory of the claims, unless DATABASE_URL is set")
	flag.Parse()
	if err := serve(*listen, *data, os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
}

func serve(listen, data, url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store := homeward.Embedded(data)
	if url != "" {
		store = homeward.Postgres(url)
	}
	if err := homeward.Migrate(ctx, store); err != nil {
		return err
	}
	h, err := homeward.Open(ctx, store)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: api(h), ReadTimeout: 10 * time.Second}
	answered := make(chan error, 1)
	go func() {
		<-ctx.Done()
		answered <- server.Shutdown(context.Background())
	}()
	err = server.ListenAndServe()
	if errors.Is(err, http.ErrServerClosed) {
		err = <-answered // the callers are answered first
	}
	return errors.Join(err, h.Close(context.Background()))
}

// api is the program's HTTP API.
func api(h *homeward.Homeward) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/orders", h.Middleware(http.HandlerFunc(order), homeward.KeyRequired()))
	return mux
}

// order is a handler as it would be without Homeward.
func order(w http.ResponseWriter, r *http.Request) {
	var in struct{ Item string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Item == "" {
		http.Error(w, "name an item", http.StatusBadRequest) // refused: every retry reads it
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"item":%q,"at":%q}`+"\n", in.Item, time.Now().Format(time.RFC3339Nano))
}
