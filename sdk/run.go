package sdk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// run is a scenario that runs.
type run struct {
	*Harness
	scenario scenario
	doors    []*door
	settings settings
	at       int   // the step
	results  []any // of the steps before
	keys     map[string]string
	before   movements
	again    bool // the step is made once more
	tries    int
	faulty   bool
	// order is what has arrived in this step, at all doors.
	order *log
}

// patience is how often a call is made again. Each waits for its answer from a cluster.
const patience = 1000

// movements is a part of the simulator's count.
type movements struct {
	Effects    int `json:"effects"`
	Duplicates int `json:"duplicate_effects"`
}

func (h *Harness) begin(ctx context.Context, s scenario) (*run, error) {
	r := &run{Harness: h, scenario: s, keys: map[string]string{}, order: &log{}}
	scripts := s.Doors
	if scripts == nil {
		scripts = [][]string{{pass}, {pass}, {pass}}
	}
	for i, script := range scripts {
		var to *url.URL
		if i < len(h.world.Regions) {
			var err error
			if to, err = url.Parse(h.world.Regions[i]); err != nil {
				return nil, err
			}
		}
		d, err := openDoor(i, to, h.file.Answers, r.order)
		if err != nil {
			r.close()
			return nil, err
		}
		r.doors = append(r.doors, d)
		d.play(script)
	}
	if s.real() {
		if len(h.world.Regions) == 0 {
			r.close()
			return nil, errors.New("it needs a cluster")
		}
		var err error
		if r.before, err = r.count(ctx); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *run) close() {
	for _, d := range r.doors {
		d.close()
	}
	if r.faulty {
		_ = r.fail(context.Background(), json.RawMessage("{}"))
	}
}

// prepare sets a step up.
func (r *run) prepare(ctx context.Context) (instruction, error) {
	s := r.scenario.Steps[r.at]
	for i, script := range s.Doors {
		r.doors[i].play(script)
	}
	if s.Faults != nil {
		if err := r.fail(ctx, s.Faults); err != nil {
			return instruction{}, err
		}
	}
	if s.Unasked != nil && r.tries == 0 {
		does, err := r.refer(s.Unasked)
		if err == nil {
			err = r.simulator(ctx, http.MethodPost, "/_sim/unasked", []byte(text(does)))
		}
		if err != nil {
			return instruction{}, err
		}
	}
	r.order.clear()
	next := instruction{Call: s.Call, Times: max(s.Times, 1)}
	if s.Client != nil || r.at == 0 {
		c := settings{MaxAttempts: 10, Timeout: 100_000, BackoffMin: 5, BackoffMax: 100}
		if s.Client != nil {
			c.MaxAttempts, c.Timeout = cmp.Or(s.Client.MaxAttempts, c.MaxAttempts), cmp.Or(s.Client.Timeout, c.Timeout)
		}
		c.Records = !r.scenario.real()
		c.APIKey = r.world.APIKey
		if c.APIKey == "" {
			c.APIKey = "sk_scenario"
		}
		for _, d := range r.doors {
			c.BaseURLs = append(c.BaseURLs, d.url)
		}
		r.settings, next.Client = c, &c
	}
	args, err := r.refer(s.Args)
	if err != nil {
		return instruction{}, err
	}
	next.Args, _ = args.(map[string]any)
	if label, ok := next.Args["key"].(string); ok && label == s.Args["key"] {
		// A name stands for a key that is new in each run.
		if r.keys[label] == "" {
			r.keys[label] = label + "-" + uuid.NewString()
		}
		next.Args["key"] = r.keys[label]
	}
	return next, nil
}

// refer replaces "$N.member" by what the result of step N has there.
func (r *run) refer(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			var err error
			if out[name], err = r.refer(value); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			var err error
			if out[i], err = r.refer(value); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		if !strings.HasPrefix(v, "$") {
			return v, nil
		}
		way := strings.Split(v[1:], ".")
		n, err := strconv.Atoi(way[0])
		if err != nil || n >= len(r.results) {
			return nil, fmt.Errorf("%s is no earlier step", v)
		}
		at := r.results[n]
		for _, member := range way[1:] {
			switch from := at.(type) {
			case map[string]any:
				at = from[member]
			case []any:
				i, err := strconv.Atoi(member)
				if err != nil || i >= len(from) {
					return nil, fmt.Errorf("%s: there is no %s", v, member)
				}
				at = from[i]
			default:
				return nil, fmt.Errorf("%s: there is no %s", v, member)
			}
		}
		return at, nil
	default:
		return v, nil
	}
}

// judge compares what came of a call with what the step wants.
func (r *run) judge(body []byte) error {
	s := r.scenario.Steps[r.at]
	var result any
	if err := json.Unmarshal(body, &result); err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	each := []any{result}
	if s.Times > 1 {
		each, _ = result.([]any)
		if len(each) != s.Times {
			return fmt.Errorf("%d results of %d calls", len(each), s.Times)
		}
	}
	if r.again = s.Until != nil && !contains(each[0], s.Until); r.again {
		if r.tries++; r.tries > patience {
			return fmt.Errorf("%d times %s, want %s in the end", r.tries, text(each[0]), text(s.Until))
		}
		return nil
	}
	r.tries = 0
	r.results = append(r.results, each[0])
	want, err := r.refer(s.Want)
	if err != nil {
		return err
	}
	for _, got := range each {
		if !contains(got, want) {
			return fmt.Errorf("got %s, want %s", text(got), text(want))
		}
		if one, ok := got.(map[string]any); !ok || !reflect.DeepEqual(one["raw"], each[0].(map[string]any)["raw"]) {
			return fmt.Errorf("got %s and %s for one key", text(got), text(each[0]))
		}
	}
	if s.Pauses != nil {
		if err := r.paused(each[0], s.Pauses); err != nil {
			return err
		}
	}
	return r.arrived(s)
}

func (r *run) paused(got any, want []float64) error {
	pauses, _ := got.(map[string]any)["pauses"].([]any)
	if len(pauses) != len(want) {
		return fmt.Errorf("%d pauses (%v), want %d", len(pauses), pauses, len(want))
	}
	for i, p := range pauses {
		if p, ok := p.(float64); !ok || p < want[i] || p > want[i]+float64(r.settings.BackoffMax) {
			return fmt.Errorf("pause %d was %v ms, want %v and up to %d more", i, pauses[i], want[i], r.settings.BackoffMax)
		}
	}
	return nil
}

// arrived judges the requests of the step.
func (r *run) arrived(s step) error {
	requests := r.order.all()
	bodies := map[string]string{}
	for _, q := range requests {
		if auth := q.header.Get("Authorization"); auth != "Bearer "+r.settings.APIKey {
			return fmt.Errorf("%s %s with the authorization %q", q.method, q.path, auth)
		}
		what := q.method + " " + q.path + " " + q.body
		if key := q.header.Get("Idempotency-Key"); key != "" {
			if before, ok := bodies[key]; ok && before != what {
				return fmt.Errorf("the key %s was sent with %s and with %s", key, before, what)
			}
			bodies[key] = what
		}
	}
	if len(bodies) > 1 {
		return fmt.Errorf("%d keys in one call", len(bodies))
	}
	if s.Requests != nil {
		got := make([]int, len(r.doors))
		for _, q := range requests {
			got[q.door]++
		}
		if !reflect.DeepEqual(got, s.Requests) {
			return fmt.Errorf("requests at each region %v, want %v", got, s.Requests)
		}
	}
	if s.Hints != nil {
		var got []string
		for _, q := range requests {
			got = append(got, q.header.Get("Homeward-Home-Region"))
		}
		if !reflect.DeepEqual(got, s.Hints) {
			return fmt.Errorf("home regions sent %q, want %q", got, s.Hints)
		}
	}
	if s.Sent != nil {
		return s.Sent.judge(requests)
	}
	return nil
}

func (s *sent) judge(requests []request) error {
	if len(requests) == 0 {
		return errors.New("nothing was sent")
	}
	q := requests[0]
	if s.Method != "" && q.method != s.Method || s.Path != "" && !same(q.path, s.Path) {
		return fmt.Errorf("sent %s %s, want %s %s", q.method, q.path, s.Method, s.Path)
	}
	if s.Body == "" && q.body != "" {
		return fmt.Errorf("sent %s, want no body", q.body)
	}
	if s.Body != nil && s.Body != "" {
		var body any
		if err := json.Unmarshal([]byte(q.body), &body); err != nil || !reflect.DeepEqual(body, s.Body) {
			return fmt.Errorf("sent %s, want %s", q.body, text(s.Body))
		}
	}
	for name, want := range s.Headers {
		if got := q.header.Get(name); !same(got, want) {
			return fmt.Errorf("sent %s: %q, want %q", name, got, want)
		}
	}
	return nil
}

// same compares what was sent with what is wanted, which may end in "…" for the rest.
func same(got, want string) bool {
	begin, more := strings.CutSuffix(want, "…")
	return got == want || more && strings.HasPrefix(got, begin)
}

// moved judges how often money has moved in the scenario.
func (r *run) moved(ctx context.Context) error {
	if !r.scenario.real() {
		return nil
	}
	after, err := r.count(ctx)
	if err != nil {
		return err
	}
	if n := after.Effects - r.before.Effects; n != r.scenario.Moves || after.Duplicates != 0 {
		return fmt.Errorf("money moved %d times, want %d; %d duplicates", n, r.scenario.Moves, after.Duplicates)
	}
	return nil
}

func (r *run) count(ctx context.Context) (m movements, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.world.Simulator+"/_sim/stats", nil)
	if err != nil {
		return m, err
	}
	res, err := direct.RoundTrip(req)
	if err != nil {
		return m, err
	}
	defer func() { _ = res.Body.Close() }()
	return m, json.NewDecoder(res.Body).Decode(&m)
}

// fail sets the provider's faults.
func (r *run) fail(ctx context.Context, faults json.RawMessage) error {
	r.faulty = true
	return r.simulator(ctx, http.MethodPut, "/_sim/faults", faults)
}

// simulator has the provider do something.
func (r *run) simulator(ctx context.Context, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, r.world.Simulator+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := direct.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the simulator refuses %s: %s", body, res.Status)
	}
	return nil
}

func text(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
