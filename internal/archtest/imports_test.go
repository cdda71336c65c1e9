// Package archtest enforces the import directions of docs/ARCHITECTURE.md.
package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/homeward-io/homeward/"

// room returns the path of a package of ours within the module; that of the module's top is
// "homeward.go".
func room(path string) (name string, ours bool) {
	if path+"/" == module {
		return "homeward.go", true
	}
	return strings.CutPrefix(path, module)
}

// forbidden: packages under from (the path itself or below) must not import
// packages under to, for the reason given. Tests may.
var forbidden = []struct{ from, to, why string }{
	{"outbox", "claim", "claim's effects carry outbox rows; the other way round would be a circle"},
	{"outbox", "region", "the outbox handles rows, not the ways of requests"},
	{"claim", "region", "correctness is in the row: nothing here may depend on membership"},
	{"claim", "router", "requests are read downwards: router, then claim"},
	{"claim", "payment", "claim declares the executor it needs; payment implements it"},
	{"claim", "internal", "domain rooms own contracts and import no technology"},
	{"ledger", "claim", "a claim's outcome and its booking are one step: claim imports the books, they import no claims"},
	{"ledger", "outbox", "the books hold movements of money, and not who is notified of them"},
	{"ledger", "payment", "the books hold movements of money, and not what requested them"},
	{"ledger", "internal", "domain rooms own contracts and import no technology"},
	{"outbox", "internal", "domain rooms own contracts and import no technology"},
	{"region", "router", "requests are read downwards: router, then region"},
	{"region", "payment", "a forward carries bytes and does not read them"},
	{"region", "internal/embedded", "domain rooms import no store"},
	{"region", "internal/httpapi", "requests are read downwards: httpapi, router, region"},
	{"router", "internal", "domain rooms import no technology"},
	{"router", "payment", "where a request goes does not depend on what it pays"},
	{"gateway", "payment", "an API in front of which it is may be of anything"},
	{"gateway", "region", "what a request means does not depend on where it runs"},
	{"gateway", "router", "what a request means does not depend on where it runs"},
	{"gateway", "outbox", "it emits nothing"},
	{"gateway", "internal", "domain rooms import no store, and httpapi reads gateway, not the other way"},
	{"payment", "region", "what a charge means does not depend on where it runs"},
	{"payment", "router", "what a charge means does not depend on where it runs"},
	{"payment", "internal/embedded", "domain rooms import no store"},
	{"payment", "internal/httpapi", "httpapi reads payment, not the other way"},
	{"payment/verify", "claim", "the books are proved from their rows alone"},
	{"payment/psp", "claim", "a provider adapter speaks to the provider, and imports no claims"},
	{"internal/documents", "internal", "both stores embed it, so it imports none, and no technology"},
	{"internal/embedded", "router", "a store persists what claim decides and nothing else"},
	{"internal/embedded", "region", "a store persists what claim decides and nothing else"},
	{"internal/embedded", "payment", "a store persists what claim decides and nothing else"},
	{"internal/embedded", "internal/httpapi", "stores and the public API meet where a deployment is handed out"},
	{"internal/sqlstore", "router", "a store persists what claim decides and nothing else"},
	{"internal/sqlstore", "region", "a store persists what claim decides and nothing else"},
	{"internal/sqlstore", "payment", "a store persists what claim decides and nothing else"},
	{"internal/sqlstore", "internal/httpapi", "stores and the public API meet where a deployment is handed out"},
	{"internal/sqlstore", "internal/embedded", "two stores of one contract do not import each other"},
	{"internal/embedded", "internal/sqlstore", "two stores of one contract do not import each other"},
	{"internal/lab/localdb", "internal/sqlstore", "a server that is started does not depend on what it stores"},
	{"internal/httpapi", "internal/embedded", "stores and the public API meet where a deployment is handed out"},
	{"internal/httpapi", "internal/sqlstore", "stores and the public API meet where a deployment is handed out"},
	{"internal/httpapi", "region", "httpapi asks the router"},
	{"internal/httpapi", "payment/psp", "httpapi never talks to a provider"},
	{"internal/drill", "internal", "a drill sees a cluster as merchants and the provider do; its Means act on it"},
	{"internal/drill", "region", "a drill sees a cluster as merchants and the provider do; its Means act on it"},
	{"internal/drill", "router", "a drill judges answers, and not how they came about"},
	{"internal/drill", "outbox", "a drill judges answers, and not how they came about"},
	{"internal/drill", "payment", "a drill asks the provider simulator over HTTP, as a process of its own"},
	{"internal/operator", "internal", "it asks nodes that run elsewhere"},
	{"internal/console", "internal", "what it reads is handed to it, and it renders whatever store there is"},
	{"internal/lab", "internal/embedded", "internal/node opens the demo's store"},
	{"internal/reconcile", "internal", "books, and who gives back, are handed to it"},
	{"internal/build", "internal", "every room may ask what it was built from"},
	{"internal/deployment", "internal/node", "nodes and commands act on it, and it imports neither"},
	{"internal/cli", "internal/embedded", "commands act on a deployment, whichever store it is"},
	{"internal/parts", "internal", "it starts and stops parts, whatever they are"},
	{"internal/problem", "internal/httpapi", "the table of errors is below everything that renders it"},
	{"internal/span", "claim", "every room makes spans, so it is below all of them"},
	{"internal/span", "internal", "merchants import client, which makes spans"},
	{"internal/meter", "claim", "every room records metrics, so it is below all of them"},
	{"internal/meter", "internal", "every room records metrics, so it is below all of them"},
	{"audit", "internal", "domain rooms import no technology; rows and objects are handed to it"},
	{"audit", "payment", "it exports rows, whatever they are of"},
	{"internal/inspect", "internal", "domain rooms import no technology; rows are handed to it"},
	{"internal/inspect", "payment", "it reads what claims, books and queues say, and asks no provider"},
	{"internal/runs", "internal", "domain rooms import no technology; a bucket is handed to it"},
	{"internal/runs", "claim", "it keeps what was found, whatever it is of"},
	{"internal/seal", "claim", "it seals bytes, whatever they are, and is below the rooms that own them"},
	{"internal/seal", "outbox", "it seals bytes, whatever they are, and is below the rooms that own them"},
	{"internal/seal", "payment", "it seals bytes, whatever they are, and is below the rooms that own them"},
	{"internal/seal", "internal", "rooms seal what they own before a store sees it; no store has a key"},
	{"internal/embedded", "internal/seal", "rooms seal what they own before a store sees it; no store has a key"},
	{"internal/sqlstore", "internal/seal", "rooms seal what they own before a store sees it; no store has a key"},
	{"internal/telemetry", "internal/node", "it sets a process up and imports nothing of what runs there"},
	{"homeward.go", "payment", "operations of a program may be of anything"},
	{"homeward.go", "gateway", "a program's own handlers are no upstream"},
	{"homeward.go", "router", "a function is of one process, and so is not forwarded"},
	{"homeward.go", "region", "a function is of one process, and so is not forwarded"},
	{"homeward.go", "internal", "programs import it; it must drag no server in"},
	{"client", "internal", "merchants import client; it must drag no server in"},
	{"client", "router", "merchants import client; it must drag no server in"},
	{"client", "region", "merchants import client; it must drag no server in"},
	{"client", "sdk", "merchants import client; it must drag no harness in"},
	{"sdk", "internal", "a harness sees a cluster as merchants and the provider do"},
}

// libraries: a library, or a room of ours, whose packages start with the prefix may
// be imported only below these rooms.
var libraries = []struct {
	prefix string
	rooms  []string
	why    string
}{
	// Of Pebble, assembly and the simulator may only see the file system.
	{"github.com/cockroachdb/pebble", []string{"internal/embedded", "internal/node", "payment/psp/simulator", "e2e"}, "one room per technology"},
	// localdb starts servers for people and tests, and asks them whether they answer. A program hands
	// its transaction to homeward.
	{"github.com/jackc/pgx", []string{"internal/sqlstore", "internal/lab", "homeward.go", "examples", "e2e"}, "one room per technology"},
	{"github.com/cockroachdb/cockroach-go", []string{"internal/sqlstore"}, "one room per technology"},
	{"github.com/pressly/goose", []string{"internal/sqlstore"}, "migrations are the store's"},
	{"github.com/hashicorp/memberlist", []string{"region"}, "gossip decides where to send, in one room"},
	{"connectrpc.com/", []string{"region", "internal/gen", "internal/proto", "homeward.go", "examples"}, "the RPC between regions is region's; homeward guards those of programs"},
	{"github.com/spiffe/", []string{"region"}, "who a node is decides where it may speak for, in one room"},
	{"gocloud.dev", []string{"internal/node"}, "the object store and sealing keys are assembly"},
	{"github.com/knadh/koanf", []string{"internal/node"}, "configuration is assembly"},
	{"go.opentelemetry.io/otel/sdk", []string{"internal/telemetry", "e2e"}, "rooms make spans; where they go is set up in one"},
	{"go.opentelemetry.io/otel/exporters", []string{"internal/telemetry"}, "rooms make spans; where they go is set up in one"},
	{"go.opentelemetry.io/", []string{"internal/span", "internal/meter", "internal/telemetry", "homeward.go", "e2e"}, "the names of traces and of metrics are in one room each"},
	{"github.com/exaring/otelpgx", []string{"internal/sqlstore"}, "one room per technology"},
	{"github.com/nats-io/nats.go", []string{"outbox/relay/nats", "e2e"}, "one room per technology"},
	{"github.com/nats-io/nats-server", []string{"e2e"}, "an operator runs the server; only tests start one"},
	{"code.dny.dev/ssrf", []string{"outbox/relay"}, "where merchants may send us is decided where we go"},
	{"github.com/stripe/stripe-go", []string{"payment/psp/stripe"}, "one room per provider"},
	{"github.com/secure-systems-lab/", []string{"audit"}, "the format of segments is in one room"},
	{"github.com/klauspost/compress", []string{"audit"}, "the format of segments is in one room"},
	{"github.com/coreos/go-oidc", []string{"internal/console", "internal/node"}, "who may look is decided where pages are, and tokens of a gateway's callers are verified by assembly"},
	{"golang.org/x/oauth2", []string{"internal/console"}, "who may look is decided where pages are"},
	{"github.com/chromedp", []string{"e2e"}, "only tests look through a browser"},
	{"github.com/getkin/kin-openapi", []string{"e2e"}, "only tests hold answers against the document"},
	{"github.com/dunglas/httpsfv", []string{"claim"}, "the spelling of a key is in one room"},
	{"github.com/miekg/dns", []string{"e2e"}, "only tests ask DNS"},
	{"github.com/maxmind/mmdbwriter", []string{"e2e"}, "only tests say where addresses are"},
	{"github.com/alecthomas/kong", []string{"internal/cli", "e2e"}, "commands are internal/cli's"},
	{module + "internal/lab", []string{"internal/lab", "internal/cli", "e2e"}, "what serves is never a toy"},
	{module + "internal/cli", []string{"cmd"}, "package main is its door; what others need of it is in a room of its own"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func under(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }

func TestImportDirections(t *testing.T) {
	all := packages(t)
	seen := map[string]bool{}
	for _, p := range all {
		from, _ := room(p.ImportPath)
		seen[from] = true
		for _, imported := range p.Imports {
			to, internal := room(imported)
			for _, f := range forbidden {
				// Conformance suites are contracts for the rooms above them.
				if internal && under(from, f.from) && under(to, f.to) && !under(to, f.from) && !allowed(from, to) {
					t.Errorf("%s imports %s: %s", from, to, f.why)
				}
			}
			for _, l := range libraries {
				if strings.HasPrefix(imported, l.prefix) && !underAny(from, l.rooms) {
					t.Errorf("%s imports %s, which only %v may: %s", from, imported, l.rooms, l.why)
				}
			}
		}
	}
	for _, f := range forbidden {
		if !seen[f.from] {
			t.Errorf("rule for %s matches no package: mend the rule", f.from)
		}
	}
}

// allowed are the exceptions, each with its reason.
func allowed(from, to string) bool {
	switch {
	case underAny(to, everywhere), under(to, "internal/seal"):
		return true // what is below all rooms
	case under(from, "internal/console") && (under(to, "internal/inspect") || under(to, "internal/runs")):
		return true // what it shows
	case from == "homeward.go" && underAny(to, []string{"internal/sqlstore", "internal/embedded", "internal/problem"}):
		return true // it opens a store, as a node does, and answers in the same words
	case under(from, "region") && (under(to, "internal/gen")):
		return true // the wire format is generated there
	case (under(from, "payment") || under(from, "gateway")) && under(to, "internal/problem"):
		return true // a refusal is remembered as the bytes of a problem
	case (under(from, "internal/embedded") || under(from, "internal/sqlstore")) && under(to, "payment/notice"):
		return true // a contract that they implement
	}
	return false
}

func underAny(path string, rooms []string) bool {
	for _, r := range rooms {
		if under(path, r) {
			return true
		}
	}
	return false
}

// everywhere are rooms that any other may import: they import none.
var everywhere = []string{"internal/fault", "internal/span", "internal/meter", "internal/gen", "internal/telemetry"}

// assembly are rooms that may import any domain room; of them the drawing has what they
// import under internal.
var assembly = []string{"internal/node", "internal/lab", "internal/cli"}

// roomOf is the room of the drawing that a package is in, "" for what is not drawn.
func roomOf(path string, rooms []string) (room string) {
	for _, r := range rooms {
		if under(path, r) && len(r) > len(room) {
			room = r
		}
	}
	return room
}

// TestTheDrawingIsRight compares "What may import what" in docs/ARCHITECTURE.md with the
// imports that there are, both ways: an arrow that is missing, and one that is too many.
// What only tests need never gets into what is deployed, by whichever way.
func TestTheServiceCarriesNoTestLibraries(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"cmd/homeward").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.Lines(string(out)) {
		for _, prefix := range []string{"github.com/getkin/kin-openapi", "github.com/nats-io/nats-server", "github.com/chromedp", "github.com/stretchr/testify"} {
			if strings.HasPrefix(path, prefix) {
				t.Errorf("cmd/homeward carries %s, which is for tests", strings.TrimSpace(path))
			}
		}
	}
}

func TestTheDrawingIsRight(t *testing.T) {
	page, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What may import what")
	drawn := map[string]bool{}
	var rooms []string
	for line := range strings.Lines(section) {
		from, to, arrow := strings.Cut(line, "─▶")
		if strings.HasPrefix(line, "## ") {
			break
		}
		if !arrow || !strings.HasPrefix(line, "    ") {
			continue
		}
		for f := range strings.SplitSeq(from, ",") {
			f = strings.TrimSpace(f)
			rooms = append(rooms, f)
			for r := range strings.SplitSeq(to, ",") {
				r = strings.TrimSpace(r)
				drawn[f+" ─▶ "+r] = true
				rooms = append(rooms, r)
			}
		}
	}
	if len(drawn) < 20 {
		t.Fatalf("only %d arrows are drawn: has the drawing another form now?", len(drawn))
	}
	there := map[string]bool{}
	for _, p := range packages(t) {
		path, _ := room(p.ImportPath)
		from := roomOf(path, rooms)
		if strings.HasSuffix(path, "test") || underAny(path, []string{"e2e", "examples", "internal/tools", "sdk"}) || underAny(path, everywhere) {
			continue
		}
		for _, imported := range p.Imports {
			to, internal := room(imported)
			if !internal || underAny(to, everywhere) || roomOf(to, rooms) == from && from != "" || underAny(from, assembly) && !under(to, "internal") {
				continue
			}
			arrow := from + " ─▶ " + roomOf(to, rooms)
			if there[arrow] = true; !drawn[arrow] {
				t.Errorf("%s imports %s, and docs/ARCHITECTURE.md draws no arrow %s", path, to, arrow)
			}
		}
	}
	for arrow := range drawn {
		if !there[arrow] {
			t.Errorf("docs/ARCHITECTURE.md draws an arrow that there is not: %s", arrow)
		}
	}
}
