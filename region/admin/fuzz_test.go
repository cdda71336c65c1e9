package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/region"
)

// FuzzRequests sends a node what an operator's tool may send. The node does not panic, sets a
// status only where the message names a region and a status, and runs what the message says.
func FuzzRequests(f *testing.F) {
	paths := []string{pathPart, pathOverview, pathSetStatus, pathRun}
	f.Add(byte(0), []byte(`{"epoch":3,"arrivals":-1}`))
	f.Add(byte(1), []byte(`{"gather":true,"epoch":1,"arrivals":100,"without_backlog":true}`))
	f.Add(byte(2), []byte(`{"region":"us-east1","status":"down"}`))
	f.Add(byte(2), []byte(`{"region":"us-east1"}`))
	f.Add(byte(2), []byte(`{"region":"us-east1","status":null}`))
	f.Add(byte(3), []byte("\x00\x00\x00\x00\x18"+`{"args":["outbox","list"]}`))
	f.Fuzz(func(t *testing.T, procedure byte, body []byte) {
		path := paths[int(procedure)%len(paths)]
		d := newDeployment(t, "n1", us)
		d.run = func(_ context.Context, args []string, _, _ io.Writer) int {
			if len(args) < 1 || len(args) > MaxArgs {
				t.Errorf("%q ran", args)
			}
			return 0
		}
		var log bytes.Buffer
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.RemoteAddr = "127.0.0.1:40000"
		r.Header.Set("Content-Type", "application/json")
		if path == pathRun {
			r.Header.Set("Content-Type", "application/connect+json")
		}
		w := httptest.NewRecorder()
		d.admin(slog.New(slog.NewTextHandler(&log, nil)), nil).ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError || strings.Contains(log.String(), "level=ERROR") {
			t.Fatalf("%d %s\n%s", w.Code, w.Body, &log)
		}
		if path != pathSetStatus || len(d.requests) == 0 {
			return
		}
		var said struct {
			Region string
			Status *region.Status
		}
		if err := json.Unmarshal(body, &said); err != nil || said.Status == nil || d.requests[0] != said.Region+" is "+said.Status.String() {
			t.Fatalf("%q: %v, %v", body, d.requests, err)
		}
	})
}
