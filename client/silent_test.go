package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// regions answer in a bubble, by host. An answer has a delay, never for none; the delays of each
// region's payments, and of its GET /livez.
type regions map[string]struct{ pays, lives time.Duration }

const never = time.Duration(-1)

func (r regions) RoundTrip(req *http.Request) (*http.Response, error) {
	delay, body := r[req.URL.Host].pays, chargeJSON
	if req.URL.Path == "/livez" {
		delay, body = r[req.URL.Host].lives, "ok"
	}
	if delay == never {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if err := sleep(req.Context(), delay); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// A region that answers nothing at all holds a call for less than a second, one that is slow
// keeps it, and the last one is never left.
func TestASilentRegionIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		regions  regions
		attempts int
		within   time.Duration
	}{
		"silent":                      {regions{"a": {never, never}, "b": {0, 0}, "c": {0, 0}}, 2, 700 * time.Millisecond},
		"slow provider":               {regions{"a": {20 * time.Second, 400 * time.Millisecond}, "b": {0, 0}, "c": {0, 0}}, 1, 20 * time.Second},
		"silent later":                {regions{"a": {never, 0}, "b": {0, 0}, "c": {0, 0}}, 2, DefaultTimeout + DefaultBackoffMin},
		"two are silent":              {regions{"a": {never, never}, "b": {never, never}, "c": {0, 0}}, 3, 1400 * time.Millisecond},
		"all are silent, one answers": {regions{"a": {never, never}, "b": {never, never}, "c": {30 * time.Second, never}}, 3, 32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl, err := New(Config{BaseURLs: []string{"http://a", "http://b", "http://c"}, APIKey: "k", HTTPClient: &http.Client{Transport: c.regions}})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				made, err := cl.Charge(t.Context(), params)
				if err != nil || made.Answer.Attempts != c.attempts || time.Since(began) > c.within {
					t.Errorf("got %v after %v and %v", made, time.Since(began), err)
				}
				// The next call begins at the region that answered.
				then := 1
				if c.regions["c"].lives == never {
					then = 4
				}
				if made, err = cl.Charge(t.Context(), params); err != nil || made.Answer.Attempts != then {
					t.Errorf("then %v, %v", made, err)
				}
			})
		})
	}
}

// The caller gets what it had to know: money may have moved.
func TestSilenceIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl, err := New(Config{
			BaseURLs: []string{"http://a", "http://b"}, APIKey: "k", MaxAttempts: 1,
			HTTPClient: &http.Client{Transport: regions{"a": {never, never}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = cl.Charge(t.Context(), params)
		var e *Error
		if !errors.As(err, &e) || !e.Unknown || e.Retry != RetrySameKey || !errors.Is(err, errSilent) {
			t.Errorf("got %v", err)
		}
	})
}

// A call whose deadline passes before the region counts as silent leaves it for the calls after it. One
// that its caller canceled does not.
func TestADeadlineLeavesTheRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl, err := New(Config{
			BaseURLs: []string{"http://a", "http://b"}, APIKey: "k",
			HTTPClient: &http.Client{Transport: regions{"a": {never, never}, "b": {0, 0}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := cl.Charge(canceled, params); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		for _, late := range []bool{true, false} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if _, err := cl.Charge(ctx, params); errors.Is(err, context.DeadlineExceeded) != late {
				t.Errorf("late %v: %v", late, err)
			}
			cancel()
		}
	})
}

// One base URL leaves silence to the time-out: there is no other region, and nothing is asked.
func TestTheOnlyRegionIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		count := transportFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/livez" {
				asked++
			}
			return regions{"a": {time.Minute, 0}}.RoundTrip(req)
		})
		cl, err := New(Config{BaseURLs: []string{"http://a"}, APIKey: "k", HTTPClient: &http.Client{Transport: count}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cl.Charge(context.Background(), params); err != nil || asked != 0 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
