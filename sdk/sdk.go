// Package sdk tries a client, in any language, through the scenarios of scenarios.json.
//
//	h, err := sdk.New(sdk.World{Regions: urls, Simulator: url, APIKey: "sk_demo_acme"})
//	server := httptest.NewServer(h) // HOMEWARD_SDK of the client's tests is its URL
//	defer h.Close()
//
// A [Harness] has all that is the same in every language: regions that answer by script, or lose
// requests and replies on their way to real ones, the scenarios, and the verdicts. A client's own
// tests do the calls that the harness asks for and report what came of them: README.md beside
// this file has the protocol, and go run ./sdk/harness runs a command with a harness.
package sdk

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed scenarios.json
var scenarios []byte

// World is the real cluster behind the doors. Regions are the URLs of three regions, Simulator that of
// the payment simulator, which counts movements. The zero World has none: only scenarios whose regions
// answer by script can run.
type World struct {
	Regions           []string
	Simulator, APIKey string
}

// file is scenarios.json.
type file struct {
	// Answers are named for the scripts of doors.
	Answers   map[string]answer `json:"answers"`
	Scenarios []scenario        `json:"scenarios"`
}

// scenario is what happens to one client. Moves is how often money moves in all of it.
type scenario struct {
	Name  string     `json:"name"`
	Doors [][]string `json:"doors"` // a script each, see [door]; none: three ways to real regions
	Moves int        `json:"moves"`
	Steps []step     `json:"steps"`
}

// step is one call and its verdict.
type step struct {
	// Client, if set, is the settings of a new client, that makes this call and the next ones.
	Client *settings `json:"client"`
	// Doors, if set, are the new scripts. Faults, if set, are those of the provider from here on.
	// Unasked, if set, is what the provider does by itself before the call, as its POST /_sim/unasked
	// has it.
	Doors   [][]string      `json:"doors"`
	Faults  json.RawMessage `json:"faults"`
	Unasked map[string]any  `json:"unasked"`
	Call    string          `json:"call"`
	Args    map[string]any  `json:"args"`
	// Times is how often the call is made at once; 0 is once.
	Times int `json:"times"`

	// Until: the call is made again until its result has this part.
	Until map[string]any `json:"until"`
	// Want is a part of the result of each. Its values, and those of Args and Unasked, may be "$N.member.member":
	// a member of the result of step N.
	Want map[string]any `json:"want"`
	// Pauses are what each pause has at least, in ms. They have a random part of at most
	// BackoffMax beside.
	Pauses []float64 `json:"pauses"`
	// Requests are those at each door. Sent is a part of the first, Hints the
	// Homeward-Home-Region of each.
	Requests []int    `json:"requests"`
	Sent     *sent    `json:"sent"`
	Hints    []string `json:"hints"`
}

type sent struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Body    any               `json:"body"`
	Headers map[string]string `json:"headers"`
}

// settings of a client. Times are in ms. A step of scenarios.json sets MaxAttempts and Timeout; the
// harness has the others.
type settings struct {
	BaseURLs    []string `json:"base_urls"`
	APIKey      string   `json:"api_key"`
	MaxAttempts int      `json:"max_attempts"`
	Timeout     int      `json:"timeout_ms"`
	BackoffMin  int      `json:"backoff_min_ms"`
	BackoffMax  int      `json:"backoff_max_ms"`
	// Records: the client notes its pauses and does not sleep.
	Records bool `json:"records_pauses"`
}

// instruction is the answer to a runner: a call to make, or the end.
type instruction struct {
	Client *settings      `json:"client,omitempty"`
	Call   string         `json:"call,omitempty"`
	Args   map[string]any `json:"args,omitempty"`
	Times  int            `json:"times,omitempty"`
	Wrong  string         `json:"wrong,omitempty"`
}

// Harness is the http.Handler of a client's tests. One scenario runs at a time, as the
// provider's count is one.
type Harness struct {
	world World
	file  file

	mu  sync.Mutex
	run *run
}

// New reads the scenarios.
func New(w World) (*Harness, error) {
	h := &Harness{world: w}
	dec := json.NewDecoder(bytes.NewReader(scenarios))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h.file); err != nil {
		return nil, fmt.Errorf("sdk/scenarios.json: %w", err)
	}
	for _, s := range h.file.Scenarios {
		if err := h.check(s); err != nil {
			return nil, fmt.Errorf("sdk/scenarios.json: %s: %w", s.Name, err)
		}
	}
	return h, nil
}

func (h *Harness) check(s scenario) error {
	for _, st := range s.Steps {
		if st.Call == "" {
			return errors.New("a step without a call")
		}
	}
	for _, doors := range append([][][]string{s.Doors}, doorsOf(s.Steps)...) {
		for _, script := range doors {
			for _, fate := range script {
				if _, named := h.file.Answers[fate]; !named && !slices.Contains(fates, fate) {
					return fmt.Errorf("no answer has the name %q", fate)
				}
			}
		}
	}
	return nil
}

func doorsOf(steps []step) (all [][][]string) {
	for _, s := range steps {
		all = append(all, s.Doors)
	}
	return all
}

// real reports whether a scenario needs a cluster.
func (s scenario) real() bool {
	if s.Doors == nil {
		return true
	}
	for _, doors := range append(doorsOf(s.Steps), s.Doors) {
		for _, script := range doors {
			for _, fate := range script {
				if fate == pass || fate == loseReply || fate == cutReply {
					return true
				}
			}
		}
	}
	return false
}

// Close ends what runs.
func (h *Harness) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end()
}

func (h *Harness) end() {
	if h.run != nil {
		h.run.close()
		h.run = nil
	}
}

// ServeHTTP answers GET / with the scenarios, and POST /N with the next instruction of scenario N. An
// empty body begins it; else the body is the result of the last call.
func (h *Harness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Method == http.MethodGet {
		type entry struct {
			Name string `json:"name"`
			At   string `json:"at"`
		}
		all := []entry{}
		for i, s := range h.file.Scenarios {
			if !s.real() || len(h.world.Regions) > 0 {
				all = append(all, entry{s.Name, "/" + strconv.Itoa(i)})
			}
		}
		respond(w, all)
		return
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || n < 0 || n >= len(h.file.Scenarios) {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the runner has gone
	}
	respond(w, h.next(r.Context(), n, body))
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (h *Harness) next(ctx context.Context, n int, body []byte) instruction {
	next, err := h.advance(ctx, n, body)
	if err != nil {
		wrong := err.Error()
		if h.run != nil {
			wrong = fmt.Sprintf("%s, step %d: %v", h.run.scenario.Name, h.run.at, err)
		}
		h.end()
		return instruction{Wrong: wrong}
	}
	return next
}

func (h *Harness) advance(ctx context.Context, n int, body []byte) (instruction, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		h.end()
		r, err := h.begin(ctx, h.file.Scenarios[n])
		if err != nil {
			return instruction{}, err
		}
		h.run = r
	} else {
		if h.run == nil || h.run.scenario.Name != h.file.Scenarios[n].Name {
			return instruction{}, errors.New("a result of a scenario that does not run: begin it with an empty body")
		}
		if err := h.run.judge(body); err != nil {
			return instruction{}, err
		}
		if h.run.again {
			select {
			case <-time.After(20 * time.Millisecond): // no need to ask faster
			case <-ctx.Done():
			}
			return h.run.prepare(ctx)
		}
		h.run.at++
	}
	if h.run.at == len(h.run.scenario.Steps) {
		err := h.run.moved(ctx)
		if err == nil {
			h.end()
		}
		return instruction{}, err
	}
	return h.run.prepare(ctx)
}

// contains compares a result with the part that is wanted of it. An object may have other members, but
// {"min": N} is any number from N on.
func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		if least, ok := want["min"].(float64); ok && len(want) == 1 {
			n, ok := got.(float64)
			return ok && n >= least
		}
		has, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for member, value := range want {
			if !contains(has[member], value) {
				return false
			}
		}
		return true
	case []any:
		has, ok := got.([]any)
		if !ok || len(has) != len(want) {
			return false
		}
		for i := range want {
			if !contains(has[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(got, want)
	}
}
