package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/homeward-io/homeward/internal/drill"
)

// column is one of a table that a command prints: its heading, and what is below it.
type column struct{ heading, means string }

// columns are those of a table, in their order. What a table prints as its headings comes
// from here, and so do --help and docs/OUTPUT.md: no heading goes unexplained.
type columns struct {
	// command prints it, as in "homeward regions"; also those of like.
	command string
	like    []string
	// rows names what a line is.
	rows string
	all  []column
}

// listing is a table with cells of one line each, which cannot steer a terminal. It prints when
// flushed.
type listing struct{ *tabwriter.Writer }

// list begins a table with the headings of c.
func (c *columns) list(io streams) listing {
	l := listing{table(io)}
	names := make([]any, len(c.all))
	for i, one := range c.all {
		names[i] = one.heading
	}
	l.row(names...)
	return l
}

func (l listing) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		if at, ok := cell.(time.Time); ok {
			cell = moment(at)
		}
		texts[i] = visible(fmt.Sprint(cell))
	}
	fmt.Fprintln(l, strings.Join(texts, "\t"))
}

// of reports whether a command prints it.
func (c *columns) of(command string) bool {
	return c.command == command || slices.Contains(c.like, command)
}

// times and money are explained once.
const (
	minorUnits  = "in minor units"
	homedHere   = "The home region of the rows."
	ofTheTenant = "The tenant."
	refOfTheirs = "The provider's own id of the movement."
)

var (
	shadowColumns = columns{"homeward gateway report", nil, "a node and a day", []column{
		{"BEGAN", "When the report began: at the node's start, or at midnight UTC."},
		{"NODE", "The node that let the requests pass."},
		{"REQUESTS", "Requests that a route guards."},
		{"FIRST", "Those that came first under their key, or after one that guarding would let send again."},
		{"REPLAYED", "Repeats that guarding would have answered with the first reply, and not sent."},
		{"JOINED", "Repeats while the first was under way: they would have waited for its reply."},
		{"HELD BACK", "Repeats of a request without a clear reply: they would have been told that its outcome is not known."},
		{"REFUSED", "Requests that guarding refuses: with another request's key, with no key that can be one, too long."},
		{"DONE AGAIN", "Those of REPLAYED and JOINED that the API did once more: it said yes to both, in different bytes."},
		{"NOT COMPARED", "Requests about which nothing is known: the store was away, or they were cut off."},
	}}
	regionColumns = columns{"homeward regions", nil, "a region", []column{
		{"REGION", "The region's name."},
		{"CODE", "Its code, which keys and ids contain permanently."},
		{"STATUS", "active; draining: no new keys get their home here; down: the others act on its rows."},
		{"NODES", "Live nodes of it in gossip."},
		{"RTT", "Round trip from the answering node, by gossip's pings; - for its own region, or while none has been measured."},
		{"LAST SEEN", "When gossip last had a live node of it, by this machine's clock."},
		{"IN FLIGHT", "Claims at home here without an outcome. Parked ones do not count."},
		{"PENDING", "Provider calls that are neither done nor parked. homeward outbox list has the other queues."},
		{"DUE", "Those of PENDING that a worker could take now."},
		{"OLDEST DUE", "For how long the oldest of DUE has been due: the lag of the workers."},
		{"PARKED", "Provider calls that wait for a person: homeward outbox list."},
	}}
	nodeColumns = columns{"homeward regions", nil, "a node", []column{
		{"NODE", "The node's name."},
		{"REGION", "Its region."},
		{"HEALTH", "ready; not ready, with the reason that /readyz gives, or by gossip alone; or that it does not answer, with the reason below the table."},
		{"EPOCH", "The version of the table of regions that it acts on. All should have the same one."},
		{"REQUESTS NOW", "Merchants' requests in progress."},
		{"FORWARDS NOW", "Other nodes' requests in progress."},
		{"VERSION", "Its build."},
		{"RPC", "Its RPC address, for --node."},
	}}
	topColumns = columns{"homeward top", nil, "a region", []column{
		{"REGION", "The region where requests arrived."},
		{"STATUS", "As in homeward regions."},
		{"NODES", "Live nodes, how many of them did not answer (silent), so that their counts are missing, and how many are not ready, as homeward regions explains."},
		{"RTT", "As in homeward regions."},
		{"REQ/S", "Requests per second, of the last ten seconds."},
		{"REQUESTS", "Requests since each node started, as in the next three."},
		{"REPLAYED", "Those that got a stored answer."},
		{"REFUSED", "Those that got 4xx."},
		{"FAILED", "Those that got 5xx."},
		{"WAYS", "Where they went: home, a key at home here; forward, to a node of its home; replica, the near copy of an answer; deputy, the rows of a lost home; unrouted, nowhere: refused before it was sent to its home, or no home was found."},
		{"DEPUTY FOR", "Regions for which its nodes act as deputies, since none of their nodes answers, or can record anything."},
	}}
	arrivalColumns = columns{"homeward top", nil, "one of the latest requests", []column{
		{"ARRIVED", "When, in UTC."},
		{"ENTRY", "The region that it arrived at."},
		{"REQUEST", "The operation."},
		{"TENANT", ofTheTenant},
		{"KEY", "The idempotency key."},
		{"WAY", "home, forward, replica, deputy or unrouted; see WAYS."},
		{"HOME", "The key's home."},
		{"ANSWER", "HTTP status, and whether it was a replay, or the code of the error."},
		{"TOOK", "Time until the answer, at the entry."},
	}}
	queueColumns = columns{"homeward outbox list", nil, "a queue of a region", []column{
		{"QUEUE", "provider_calls: outcomes to find out; events: to be delivered; expiries: charges that stop being payable; notices: what providers said."},
		{"REGION", homedHere},
		{"PENDING", "Rows that are neither done nor parked; most are not due yet."},
		{"DUE", "Those of PENDING that a worker could take now."},
		{"OVERDUE", "For how long the oldest of DUE has been due."},
		{"PARKED", "Rows that no worker takes until homeward outbox retry."},
	}}
	parkedColumns = columns{"homeward outbox list", nil, "a parked row", []column{
		{"PARKED", "The row's id, for homeward outbox retry."},
		{"QUEUE", "Its queue."},
		{"REGION", homedHere},
		{"TENANT", ofTheTenant},
		{"KEY", "The idempotency key that it belongs to."},
		{"AGE", "Time since it was made."},
		{"ATTEMPTS", "How often a worker has tried."},
		{"REASON", "Why it was parked, or its last error."},
	}}
	tenantColumns = columns{"homeward tenant list", nil, "a tenant", []column{
		{"ID", "The tenant's id."},
		{"NAME", "Its display name."},
		{"REGISTRAR", "The region that keeps its pins."},
		{"BEFORE", "The former registrar, while pins remain there that count."},
		{"MOVED", "When the registrar was moved."},
		{"RATE", "Requests per second allowed at each node; default: the nodes' setting tenant_rate."},
		{"BURST", "Requests at once allowed at each node; default: tenant_burst."},
		{"CARD NUMBERS", "What is done with card numbers in free text: refuse, mask or allow."},
		{"ROUTES", "Rules that choose the provider of its payments; empty: the nodes' default."},
	}}
	keyColumns = columns{"homeward tenant keys", nil, "an API key", []column{
		{"KEY", "The first 12 digits of the API key's SHA-256."},
		{"STATE", "valid; ending: valid until ENDS; ended."},
		{"CREATED", "When it was minted; - if the store does not keep that."},
		{"ENDS", "When it stops working; - if it does not end."},
	}}
	accountColumns = columns{"homeward account list", nil, "a provider's name", []column{
		{"PROVIDER", "The name in settings and books."},
		{"ACCOUNT", "The provider's id of the account behind it; empty: the provider does not say."},
		{"SINCE", "When the account was first seen, or accepted."},
	}}
	brakeColumns = columns{"homeward compensations show", nil, "a provider, and (all)", []column{
		{"PROVIDER", "The provider of the automatic refunds."},
		{"STATUS", "flowing: ghosts are refunded; held: none is until homeward compensations release."},
		{"LAST HOUR", "Refunds that were let through in the last hour."},
		{"WHY", "Since when they are held, and the reason."},
		{"LAST DOUBT", "When the provider last did not show a movement that it had reported. That one is parked, and holds no other."},
	}}
	factTerms = columns{"homeward inspect", []string{"homeward audit show"}, "a fact about the key, below the sentence that sums it up", []column{
		{"next", "What to do about it, where something is to be done."},
		{"tenant", ofTheTenant},
		{"key", "The idempotency key."},
		{"object", "The charge, transfer, refund or order under the key."},
		{"home", "The key's home region."},
		{"claim", "State (IN_FLIGHT, COMPLETED, FAILED_RETRY, FAILED_TERMINAL); age (live: retries are answered; expired: they get 410; gone: the key is new); fence, generation and attempts, as in the columns below."},
		{"holder", "The node that works on the key, and the end of its lease."},
		{"provider reference", refOfTheirs},
		{"refund of", "The charge that a merchant's refund gives back."},
		{"booked", "A transaction of the books: time, id, kind, amount in minor units, credited and debited account, provider and its id."},
		{"waits", "An outbox row: its queue and id, and when it is due or why it is parked."},
		{"trace", "Trace id of the request that began the latest generation."},
	}}
	historyColumns = columns{"homeward inspect", []string{"homeward audit show"}, "an event of the key", []column{
		{"TIME", "When, by the store's clock, in UTC."},
		{"EVENT", "What happened to the claim."},
		{"DETAIL", "More about it: an operation, a reason, a status."},
		{"REGION", "The region that acted."},
		{"NODE", "The node that acted."},
		{"FENCE", "The claim's fence: it goes up when another node takes the claim over."},
		{"GENERATION", "The claim's generation: it goes up after a definite no."},
		{"FROM", "row, or the exported segment that has it."},
	}}
	balanceColumns = columns{"homeward ledger balances", nil, "an account in a currency", []column{
		{"REGION", homedHere},
		{"ACCOUNT", "merchant:TENANT, provider:NAME, suspense:TENANT and so on."},
		{"CURRENCY", "ISO 4217, in lower case."},
		{"DEBITS", "Sum of all debits, " + minorUnits + "."},
		{"CREDITS", "Sum of all credits, " + minorUnits + "."},
		{"BALANCE", "DEBITS minus CREDITS: below 0 is owed to the account, as to a merchant."},
		{"TRANSACTIONS", "Transactions that have touched it."},
		{"NOTE", "Marks suspense accounts that are not at zero: payers are owed this."},
	}}
	entryColumns = columns{"homeward ledger entries", nil, "one side of a transaction", []column{
		{"TIME", "When it was booked, in UTC."},
		{"REGION", homedHere},
		{"TRANSACTION", "The transaction's id. Its two sides have the same."},
		{"KIND", "charge, refund, ghost and so on."},
		{"ACCOUNT", "The account that is debited or credited."},
		{"DEBIT", "The amount, " + minorUnits + ", where it is a debit."},
		{"CREDIT", "The amount, " + minorUnits + ", where it is a credit."},
		{"CURRENCY", "ISO 4217, in lower case."},
		{"OBJECT", "The charge, transfer or refund that it is about."},
		{"PROVIDER REF", refOfTheirs},
		{"REVERSES", "The transaction that this one takes back."},
		{"DECIDED BY, WHY", "Of adjustments: the person, and the reason."},
	}}
	mismatchColumns = columns{"homeward reconcile", nil, "a mismatch, of which the first are listed", []column{
		{"MISMATCH", "Its class; docs/RUNBOOK.md says what to do about each."},
		{"REFERENCE", "Our id that the statement names."},
		{"PROVIDER REF", refOfTheirs},
		{"TENANT", "The tenant, if a row names it."},
		{"STATED", "Amount in the statement, " + minorUnits + "."},
		{"BOOKED", "Amount in the books, " + minorUnits + "."},
		{"HEALING", "What --heal did about it."},
		{"DETAIL", "What does not agree."},
	}}
	unknownColumns = columns{"homeward reconcile", nil, "a kind of lines that the format does not know", []column{
		{"UNKNOWN KIND", "The kind, as the statement names it."},
		{"LINES", "How many lines are of it."},
	}}
	segmentColumns = columns{"homeward audit verify", nil, "a region", []column{
		{"REGION", "The home of the claims."},
		{"SEGMENTS", "Segments of its chain that were verified."},
		{"ENTRIES", "Entries in them."},
		{"REPLIES LOST", "Entries of replies that nodes had no room for, and counted instead."},
		{"SPARE", "Segments beside the chain, which an exporter left that lost a race."},
		{"FROM", "The beginning of the first segment."},
		{"TO", "The end of the last one."},
		{"LAST DIGEST", "Digest of the last segment: keep it elsewhere."},
	}}
	exportColumns = columns{"homeward audit status", nil, "a region", []column{
		{"REGION", "The home of the claims."},
		{"EXPORTED UNTIL", "All entries before are in segments."},
		{"BEHIND", "The age of what is not."},
		{"SEGMENTS", "Segments of its chain."},
		{"ROWS SWEPT UNTIL", "Rows before were found in segments, and are deleted where their claims are."},
		{"LAST DIGEST", "Digest of the last segment."},
	}}
	witnessColumns = columns{"homeward restore audit", nil, "a region", []column{
		{"REGION", "The region of the audit."},
		{"SEGMENTS", "Segments that were read."},
		{"CLAIMS", "Claims that they name, lost or not."},
		{"TOO LITTLE KNOWN", "Those of which segments do not say enough: they stay withheld."},
		{"READ UNTIL", "The command has read all that happened before."},
		{"ENDS BECAUSE", "Why no more could be read."},
	}}
	lostColumns = columns{"homeward restore book", nil, "a movement", []column{
		{"OBJECT", "The lost charge or transfer."},
		{"TENANT", ofTheTenant},
		{"AMOUNT", "The amount, " + minorUnits + ", and currency."},
		{"PROVIDER REF", refOfTheirs},
		{"BOOKED", "booked, or why not."},
	}}
	sealColumns = columns{"homeward secrets show", []string{"homeward secrets rotate"}, "a sealing key", []column{
		{"KEY", "The key's name; none: values that are not sealed."},
		{"VALUES", "Stored values under it."},
		{"NOTE", "seals: new values are sealed under it; missing: HOMEWARD_SEAL_KEYS does not have it; not sealed: stored in plain text, of the time before there was a key."},
	}}
	drillTerms = columns{"homeward drill", nil, "a figure of the verdict, or a column of its phases", termsOfDrills()}
)

// tables are all that commands print.
var tables = []*columns{
	&regionColumns, &nodeColumns, &topColumns, &shadowColumns, &arrivalColumns, &queueColumns, &parkedColumns, &tenantColumns, &keyColumns,
	&accountColumns, &brakeColumns, &factTerms, &historyColumns, &balanceColumns, &entryColumns, &mismatchColumns, &unknownColumns,
	&segmentColumns, &exportColumns, &witnessColumns, &lostColumns, &sealColumns, &drillTerms,
}

func termsOfDrills() (all []column) {
	for _, t := range drill.Terms() {
		all = append(all, column{t.Name, t.Means})
	}
	return all
}

// helpWithColumns is kong's help, and behind it what the columns mean that a command prints.
func helpWithColumns(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil || ctx.Selected() == nil {
		return err
	}
	return printColumns(ctx.Stdout, commandPath(ctx.Selected()))
}

// commandPath is a command's name without its arguments and flags.
func commandPath(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return commandPath(n.Parent) + " " + n.Name
}

func printColumns(out io.Writer, command string) error {
	t := table(streams{out: out})
	for _, c := range tables {
		if !c.of(command) {
			continue
		}
		fmt.Fprintf(t, "\nOutput, a line for %s:\n", c.rows)
		for _, one := range c.all {
			for i, line := range folded(one.means, 76) {
				name := ""
				if i == 0 {
					name = one.heading
				}
				fmt.Fprintf(t, "  %s\t%s\n", name, line)
			}
		}
	}
	return t.Flush()
}

// folded are the lines of a text of at most width letters each, where words allow.
func folded(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
