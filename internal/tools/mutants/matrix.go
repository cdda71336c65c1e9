package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// promise is what would see that a promise of the README is broken: a row of the matrix.
type promise struct {
	// explorer are promises of claim/explore_promises_test.go.
	explorer []string
	// model is what claimtest.Random compares, "" for nothing.
	model string
	// crashes, storms and drills are tests.
	crashes, storms, drills []string
	// nemesis is what TestNemesis compares, "" for nothing.
	nemesis string
	// simulate is what TestSimulate compares, "" for nothing.
	simulate string
	// mutants matches the names of mutants.
	mutants string
}

// promises are those of the README, in its order.
var promises = []promise{
	{ // at most one movement of money
		explorer: []string{"a key is charged at most once", "no node takes over a lease that runs"},
		model:    "one use of a provider key",
		crashes:  []string{"TestCrashPoints", "TestCrashInRecovery", "TestFaults", "TestAGatewaySendsAtMostOnceThroughACrash"},
		storms:   []string{"TestStorm", "TestStormOverTwoProviders", "TestStormThroughAGateway"},
		drills:   []string{"TestDrill", "TestDrillsThroughAGateway"},
		nemesis:  "movements of money, keys, references; what the API behind gateways did",
		simulate: "movements of money, keys, references; replays past the windows; what the API behind gateways did",
		mutants:  `^(claim/(reclaim|take-over|renew|lease|trust|recover|settle|moved|unsent|fault-fence|pending|learn|follow|provider|restore|last|waits|shared|release-)|batch/|sql/(row|begin|find|take|change|settle|renew|defer|reattach|calls|witnesses)|documents/windows|embedded/(renew|witnesses|clock|queue|take|remembered|read-before|not-whole)|router/(way|forwards)|outbox/|payment/|gateway/|program/|restore/|stripe/|audit/(follow|witness|ahead|continue))`,
	},
	{ // the same bytes
		explorer: []string{"every reader of a final answer reads the same bytes", "a final claim never changes", "a recorded verdict answers its caller", "a request that waited for a refusal gets it"},
		model:    "each answer and row",
		crashes:  []string{"TestCrashPoints", "TestCrash", "TestFaults"},
		storms:   []string{"TestStorm", "TestStormThroughAGateway"},
		drills:   []string{"TestDrill", "TestDrillsThroughAGateway"},
		nemesis:  "answers, once more in every region",
		simulate: "answers, once more in every region",
		mutants:  `^(claim/(answer|give-up-without|settle-again|expires|shared|release-)|sql/(settle-|replica|object|row|begin-lost)|embedded/(replica|object|remembered)|region/)`,
	},
	{ // one request
		explorer: []string{"a changed body is refused"},
		model:    "each decision",
		storms:   []string{"TestStorm", "TestStormThroughAGateway"},
		nemesis:  "changed bodies",
		simulate: "changed bodies; other requests under keys that are free",
		mutants:  `^claim/(answer-to|reclaim-fingerprint|released-compare|begin-compare|restore-fingerprint)`,
	},
	{ // across regions
		explorer: []string{"a key has at most one home"},
		model:    "one owner of a key",
		crashes:  []string{"TestCrashPoints", "TestFaults"},
		storms:   []string{"TestStorm", "TestStormThroughAGateway"},
		drills:   []string{"TestDrill", "TestDrillsThroughAGateway"},
		nemesis:  "twins in several regions",
		simulate: "twins in several regions, partitions",
		mutants:  `^(claim/(begin|pin|restore-(home|pin))|sql/(begin|pin|registrar|region|replica-(later|unsettled))|embedded/pin|router/|region/)`,
	},
	{ // no record, no charge
		explorer: []string{"no call without a durable claim"},
		crashes:  []string{"TestCrashPoints", "TestCrash"},
		mutants:  `^(batch/error|embedded/failed|claim/(begin-without|trust-lost|recover)|payment/(blind|expired))`,
	},
	{ // no outcome is silently unknown
		explorer: []string{"unknown never becomes failure", "a claim in flight has a queued call"},
		model:    "state, counts, queued calls",
		crashes:  []string{"TestCrashDuringTheCall", "TestCrashInRecovery"},
		storms:   []string{"TestStorm", "TestStormThroughAGateway"},
		drills:   []string{"TestDrill", "TestDrillsThroughAGateway"},
		nemesis:  "no request without a final answer, also to cancellations",
		simulate: "no request without a final answer, also to cancellations",
		mutants:  `^(claim/(unknowns|not-founds|fault|settle-unknowns|take-over-look|close|give-up|moved-counts)|embedded/unknown|sql/(calls|defer|settle.*unknowns|change.sql-look)|outbox/|payment/|recon/undecided|notice/learn)`,
	},
	{ // the books follow the money
		explorer: []string{"money that moved is booked, asked about, or refunded", "an answer says what the provider did"},
		model:    "books, events, expiries",
		crashes:  []string{"TestCrashBeyondClaims", "TestEventsCrashPoints", "TestExpiryCrashPoints"},
		nemesis:  "books, balances, statement",
		simulate: "books, balances, statement; events",
		mutants:  `^(claim/(close|events)|sql/(settle.sql|events|expiries|audit)|embedded/booked|documents/|recon|audit/)`,
	},
	{ // ghosts are refunded
		explorer: []string{"money is given back once, and only what no merchant is owed", "a canceled key moves no money that is not returned"},
		model:    "what was not paid, marks of canceled keys",
		crashes:  []string{"TestCompensationCrashPoints", "TestCrashThenCancel", "TestCrashWhileCanceling"},
		storms:   []string{"TestStorm"},
		nemesis:  "keys given up: what moved, refunds",
		simulate: "keys given up: what moved, refunds; holds",
		mutants:  `^(notice/|claim/(cancel|replica-to|unpaid)|sql/(document|change|reversing)|embedded/reversing|recon/(owed|not-stated|found)|sql/(notices|settle.sql-keep)|payment/(found-a-ghost|refund))`,
	},
}

// told is a promise in the README.
var told = regexp.MustCompile(`(?m)^\d+\. \*\*(.+?)\*\*`)

// matrix returns the table of docs/TESTING.md: which tool would see each promise broken.
func matrix(root string) (string, error) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return "", err
	}
	titles := told.FindAllSubmatch(readme, -1)
	if len(titles) != len(promises) {
		return "", fmt.Errorf("the README has %d promises, and the matrix %d", len(titles), len(promises))
	}
	var b strings.Builder
	b.WriteString("| promise | explorer | model | crash tables | storm | drills | nemesis | simulation | mutants |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i, p := range promises {
		matches, err := regexp.Compile(p.mutants)
		if err != nil {
			return "", err
		}
		var of []string
		for _, room := range rooms {
			for _, m := range room.mutants {
				if name, _, _ := strings.Cut(m.name, "/"); matches.MatchString(m.name) && !slices.Contains(of, name) {
					of = append(of, name)
				}
			}
		}
		title, _, _ := strings.Cut(strings.TrimSuffix(string(titles[i][1]), "."), " (")
		explored := ""
		if n := len(p.explorer); n > 0 {
			explored = fmt.Sprint(n)
		}
		fmt.Fprintf(&b, "| %d. %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", i+1, title, explored, p.model,
			strings.Join(p.crashes, ", "), strings.Join(p.storms, ", "), strings.Join(p.drills, ", "), p.nemesis, p.simulate, strings.Join(of, ", "))
	}
	return b.String(), nil
}
