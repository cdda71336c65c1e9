package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/verify"
)

type ledgerCommand struct {
	Verify   ledgerVerifyCommand   `cmd:"" help:"Recompute every balance from zero and check every row. Exit code 1: a fault was found, 2: not all of it could be read and proved."`
	Balances ledgerBalancesCommand `cmd:"" help:"List balances; marks accounts that owe payers money."`
	Entries  ledgerEntriesCommand  `cmd:"" help:"List bookings of an account or object."`
	Adjust   ledgerAdjustCommand   `cmd:"" help:"Book a person's decision: from, to, amount, who and why."`
}

// Help returns the text that homeward ledger --help adds.
func (ledgerCommand) Help() string { return liveHelp }

type ledgerVerifyCommand struct {
	liveFlags
	metricsFlags
	runsFlags
	bucketFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Help returns the text that homeward ledger verify --help adds.
func (ledgerVerifyCommand) Help() string {
	return "Old books that have left for the audit's segments (audit.keep_books) are proved from those, where a bucket is named. " + bucketHelp + liveHelp
}

func (c *ledgerVerifyCommand) Run(ctx context.Context, io streams) error {
	bucket := c.url(runsOf(c.Data))
	if b, here := ctx.Value(nodeKey{}).(node.Belongings); here {
		bucket = b.Runs
	}
	found, unkept, err := kept(ctx, bucket, runs.Run{Kind: runs.Verify, Of: "the books", By: certified(ctx)}, func(k *runs.Kept) (*booksFound, error) {
		return c.verify(ctx, io, k != nil)
	}, reportOfBooks)
	if err != nil {
		return &exitError{exitUnread, err}
	}
	if err := c.print(io, &found.Report); err != nil {
		return err
	}
	if !found.OK() {
		return &exitError{exitDiffers, errors.Join(errors.New("the ledger is wrong: change nothing in it, and find out since when; backups have the same rows"), unkept)}
	}
	if n := found.Unproved(); n > 0 {
		return &exitError{exitUnread, errors.Join(fmt.Errorf("%d older transactions have left for the audit's segments, and were not proved; name the bucket with --bucket", n), unkept)}
	}
	return unkept
}

// booksFound is the result of a verification, and how far suspense was from zero then, by currency;
// nil if it was not requested.
type booksFound struct {
	verify.Report
	suspense map[string]int64
}

// verify verifies the books, and records the result in metrics.
func (c *ledgerVerifyCommand) verify(ctx context.Context, io streams, suspense bool) (*booksFound, error) {
	found := &booksFound{}
	return found, c.withVerdicts(ctx, io, func(v *verdicts) error {
		return c.withBooks(ctx, func(s *store) (err error) {
			books := &countedBooks{Store: s.rows}
			stop := io.progress(books.String)
			err = s.withLeft(ctx, &c.bucketFlags, c.Data, func(left verify.Left) (err error) {
				found.Report, err = verify.AllBooks(ctx, books, s.regions, left)
				return err
			})
			stop()
			if err != nil || v.metrics == nil && !suspense {
				return err
			}
			if found.suspense, err = suspended(ctx, s); err != nil || v.metrics == nil {
				return err
			}
			return v.books(time.Now(), &found.Report, found.suspense)
		})
	})
}

func (c *ledgerVerifyCommand) print(io streams, report *verify.Report) error {
	if c.JSON {
		return indented(io, report)
	}
	for _, f := range report.Failures {
		fmt.Fprintln(io.out, visible(f.String()))
	}
	from := "zero"
	switch {
	case report.Unproved() > 0:
		from = "what is carried forward"
	case report.Left > 0:
		fmt.Fprintf(io.out, "%d older transactions have left for the audit's segments, which add up to what is carried forward\n", report.Left)
	}
	_, err := fmt.Fprintf(io.out, "%d transactions in %s: %d balances proved from %s, %d more changed during the check and are within their bounds, %d failures\n",
		report.Transactions, strings.Join(report.Regions, ", "), report.Balances, from, report.Moving, report.Failed)
	return err
}

type ledgerBalancesCommand struct {
	liveFlags
	Region string `placeholder:"REGION" help:"Only rows whose home is this region."`
	After  string `placeholder:"ACCOUNT:CURRENCY" help:"List those after this one. Needs --region."`
	Limit  int    `default:"100" help:"Maximum number for each region."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// balanceRow and balanceList are the JSON of homeward ledger balances.
type balanceRow struct {
	Region   string         `json:"region"`
	Account  ledger.Account `json:"account"`
	Currency string         `json:"currency"`
	// Debits, Credits and Balance, which is the difference, are minor units.
	Debits       int64 `json:"debits"`
	Credits      int64 `json:"credits"`
	Balance      int64 `json:"balance"`
	Transactions int64 `json:"transactions"`
	// Waiting: payers are owed this money back.
	Waiting bool `json:"waiting"`
}

type balanceList struct {
	Balances []balanceRow `json:"balances"`
	// More are the flags that list the rest, for each region that has any.
	More []string `json:"more,omitempty"`
}

// mostBalances bounds the rows of one response of a database: some 2 MB.
const mostBalances = 10_000

func (c *ledgerBalancesCommand) Run(ctx context.Context, io streams) error {
	if c.Limit < 1 || c.Limit > mostBalances {
		return fmt.Errorf("--limit must be from 1 to %d, is %d", mostBalances, c.Limit)
	}
	after := ledger.AccountKey{}
	if c.After != "" {
		at := strings.LastIndexByte(c.After, ':')
		if c.Region == "" || at < 0 {
			return errors.New("--after needs --region, and is an account and a currency as in merchant:acme:usd")
		}
		after = ledger.AccountKey{Account: ledger.Account(c.After[:at]), Currency: c.After[at+1:]}
	}
	return c.withBooks(ctx, func(s *store) error {
		regions, err := s.chosen(c.Region)
		if err != nil {
			return err
		}
		list := balanceList{Balances: []balanceRow{}}
		for _, region := range regions {
			if err := list.read(ctx, s, region, after, c.Limit); err != nil {
				return err
			}
		}
		if c.JSON {
			return indented(io, list)
		}
		return list.print(io)
	})
}

func (l *balanceList) read(ctx context.Context, s *store, region string, after ledger.AccountKey, limit int) error {
	all, err := s.rows.Balances(ctx, region, after, limit+1) // one more shows whether there are more
	if err != nil {
		return err
	}
	page := all[:min(len(all), limit)]
	for _, one := range page {
		balance := one.Debits - one.Credits
		l.Balances = append(l.Balances, balanceRow{
			region, one.Account, one.Currency, one.Debits, one.Credits, balance, one.Transactions,
			balance != 0 && owes(one.Account),
		})
	}
	if len(all) > len(page) {
		last := page[len(page)-1]
		l.More = append(l.More, fmt.Sprintf("--region %s --after %s:%s", region, last.Account, last.Currency))
	}
	return nil
}

func (l *balanceList) print(io streams) error {
	t := balanceColumns.list(io)
	for _, b := range l.Balances {
		note := ""
		if b.Waiting {
			note = "LIMBO, or waiting: payers are owed this"
		}
		t.row(b.Region, b.Account, b.Currency, b.Debits, b.Credits, b.Balance, b.Transactions, note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, more := range l.More {
		fmt.Fprintf(io.err, "there are more: homeward ledger balances %s\n", more)
	}
	return nil
}

type ledgerEntriesCommand struct {
	liveFlags
	Of     string `arg:"" help:"An account, as in merchant:acme, or the id of an object or transaction, as in ch_…"`
	Region string `placeholder:"REGION" help:"Only rows whose home is this region."`
	After  string `placeholder:"REGION/TIME/ID" help:"List those after this one."`
	Limit  int    `default:"100" help:"Maximum number of transactions."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Help returns the text that homeward ledger entries --help adds.
func (ledgerEntriesCommand) Help() string {
	return "Lists the oldest first, one region after the other. For an account it reads every transaction of the regions until there are enough. For an object or a transaction it also lists its refunds, disputes, fees and ghosts, and what reverses any of these, to the end, and says in net amounts what moved. " + liveHelp
}

// entryRow and entryList are the JSON of homeward ledger entries.
type entryRow struct {
	At          time.Time      `json:"at"`
	Region      string         `json:"region"`
	Transaction string         `json:"transaction"`
	Kind        ledger.Kind    `json:"kind"`
	Account     ledger.Account `json:"account"`
	// Amount is in minor units: above 0 a debit, below 0 a credit.
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Object      string `json:"object"`
	ProviderRef string `json:"provider_ref"`
	Reverses    string `json:"reverses,omitempty"`
	// By and Why are who decided it and why, if an operator did.
	By  string `json:"decided_by,omitempty"`
	Why string `json:"decided_why,omitempty"`
}

type entryList struct {
	Entries []entryRow `json:"entries"`
	// Summary says in net amounts what moved for an object, whatever part of it is listed.
	Summary string `json:"summary,omitempty"`
	// More is the --after that lists the rest, "" if there are no more.
	More string `json:"more,omitempty"`
}

// entriesPage is how many rows are read at a time.
const entriesPage = 1000

func (c *ledgerEntriesCommand) Run(ctx context.Context, io streams) error {
	if c.Limit < 1 || c.Limit > mostBalances {
		return fmt.Errorf("--limit must be from 1 to %d, is %d", mostBalances, c.Limit)
	}
	fromRegion, from, err := readPosition(c.After)
	if err != nil {
		return err
	}
	return c.withBooks(ctx, func(s *store) error {
		regions, err := s.chosen(c.Region)
		if err != nil {
			return err
		}
		list := entryList{Entries: []entryRow{}}
		remaining, rows := c.Limit, c.pages(s)
		if !c.account() {
			all, missing := ledger.Everything(ctx, s.rows, regions, c.Of)
			if err := errors.Join(missing...); err != nil {
				return err
			}
			list.Summary, rows = inspect.Summary(c.Of, all, psp.MinorDigits), among(all)
		}
		for _, region := range regions {
			if region < fromRegion || list.More != "" {
				continue
			}
			after := ledger.Position{}
			if region == fromRegion {
				after = from
			}
			if err := c.read(ctx, rows, region, after, &list, &remaining); err != nil {
				return err
			}
		}
		where, err := s.whereLeft(ctx, regions)
		if err != nil {
			return err
		}
		if where != "" {
			fmt.Fprintln(io.err, where)
		}
		if len(list.Entries) == 0 && !strings.ContainsAny(c.Of, ":_") {
			return fmt.Errorf("%s is neither an account, as in merchant:acme, nor the id of an object or transaction, as in ch_…", visible(c.Of))
		}
		if c.JSON {
			return indented(io, list)
		}
		return list.print(io, c.Of)
	})
}

// account reports whether entries of an account are requested, and not those of an object.
func (c *ledgerEntriesCommand) account() bool {
	_, _, _, is := ledger.ReadAccount(ledger.Account(c.Of))
	return is
}

// transactions reads up to entriesPage transactions of a region after a position.
type transactions func(ctx context.Context, region string, after ledger.Position) ([]ledger.Transaction, error)

// pages reads all transactions.
func (c *ledgerEntriesCommand) pages(s *store) transactions {
	return func(ctx context.Context, region string, after ledger.Position) ([]ledger.Transaction, error) {
		return s.rows.Transactions(ctx, region, after, time.Time{}, entriesPage)
	}
}

// among reads from all, which is in order.
func among(all []ledger.Transaction) transactions {
	return func(_ context.Context, region string, after ledger.Position) (some []ledger.Transaction, _ error) {
		for _, t := range all {
			if p := t.Position(); t.Region == region && (p.At.After(after.At) || p.At.Equal(after.At) && p.ID > after.ID) {
				some = append(some, t)
			}
		}
		return some[:min(len(some), entriesPage)], nil
	}
}

// read pages through a region until it has enough entries.
func (c *ledgerEntriesCommand) read(ctx context.Context, of transactions, region string, after ledger.Position, list *entryList, remaining *int) error {
	for {
		rows, err := of(ctx, region, after)
		if err != nil {
			return err
		}
		for i := range rows {
			t := &rows[i]
			if entries := c.of(t); len(entries) > 0 {
				if *remaining == 0 {
					list.More = fmt.Sprintf("%s/%s/%s", region, after.At.UTC().Format(time.RFC3339Nano), after.ID)
					return nil
				}
				list.Entries = append(list.Entries, entries...)
				*remaining--
			}
			after = t.Position()
		}
		if len(rows) < entriesPage {
			return nil
		}
	}
}

// of returns the matching halves of t: one for an account, both for an object.
func (c *ledgerEntriesCommand) of(t *ledger.Transaction) (entries []entryRow) {
	all := !c.account()
	for _, half := range []struct {
		account ledger.Account
		amount  int64
	}{{t.Debit, t.Amount}, {t.Credit, -t.Amount}} {
		if all || string(half.account) == c.Of {
			entries = append(entries, entryRow{t.At, t.Region, t.ID, t.Kind, half.account, half.amount, t.Currency, t.Object, t.ProviderRef, t.Reverses, t.By, t.Why})
		}
	}
	return entries
}

// decision describes who decided an entry and why, "" if no person did.
func decision(e entryRow) string {
	if e.By == "" {
		return ""
	}
	return e.By + ": " + e.Why
}

// readPosition parses --after of entries.
func readPosition(text string) (region string, p ledger.Position, err error) {
	if text == "" {
		return "", p, nil
	}
	parts := strings.SplitN(text, "/", 3)
	if len(parts) == 3 {
		p.ID = parts[2]
		p.At, err = time.Parse(time.RFC3339Nano, parts[1])
	}
	if len(parts) != 3 || err != nil {
		return "", p, fmt.Errorf("--after %q is not a position in the list; use the one printed at the end of the previous page", text)
	}
	if p.At.IsZero() && p.ID == "" {
		p = ledger.Position{}
	}
	return parts[0], p, nil
}

func (l *entryList) print(io streams, of string) error {
	t := entryColumns.list(io)
	for _, e := range l.Entries {
		debit, credit := fmt.Sprint(e.Amount), ""
		if e.Amount < 0 {
			debit, credit = "", fmt.Sprint(-e.Amount)
		}
		t.row(e.At, e.Region, e.Transaction, e.Kind, e.Account, debit, credit, e.Currency, e.Object, e.ProviderRef, e.Reverses, decision(e))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l.Summary != "" {
		fmt.Fprintf(io.out, "\n%s\n", visible(l.Summary))
	}
	if len(l.Entries) == 0 {
		fmt.Fprintf(io.err, "nothing is booked for %s in what was read; an account is as in merchant:acme\n", visible(of))
	}
	if l.More != "" {
		fmt.Fprintf(io.err, "there are more: homeward ledger entries %s --after %s\n", of, l.More)
	}
	return nil
}
