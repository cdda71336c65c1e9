package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
)

type ledgerAdjustCommand struct {
	liveFlags
	From      string `required:"" placeholder:"ACCOUNT" help:"Account to credit, as in provider:stripe."`
	To        string `required:"" placeholder:"ACCOUNT" help:"Account to debit, as in suspense:acme."`
	Amount    int64  `required:"" placeholder:"N" help:"Amount, in minor units."`
	Currency  string `required:"" placeholder:"CODE" help:"Currency, as in usd."`
	Reference string `required:"" placeholder:"REF" help:"Id of the decision: a ticket, a case. The same id books once; the same id with other values is refused."`
	By        string `required:"" placeholder:"WHO" help:"Note of who decided. Who ran the command is in the audit, and at a node, by certificate, in the booking."`
	Why       string `required:"" placeholder:"TEXT" help:"The reason, for whoever looks next."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

// Help returns the text that homeward ledger adjust --help adds.
func (ledgerAdjustCommand) Help() string {
	return `Books what a person decided, for ever. A mistake is reversed by an adjustment the other way round, with a reference of its own.

Money goes from the account that is credited to the one that is debited, as in the table of package ledger. A payer of acme was paid back by bank transfer, so that the provider's suspense is not owed any more: --from bank:stripe --to suspense:acme. A dispute is given up, and the merchant bears it: --from disputed:acme --to merchant:acme.

` + liveHelp
}

const (
	maxReference = 128
	maxDecision  = 512
)

// adjustment is the transaction of c, in the books of home.
func (c *ledgerAdjustCommand) adjustment(home string) (t ledger.Transaction, err error) {
	t = ledger.Transaction{
		ID: ledger.AdjustmentID(c.Reference), Region: home, Kind: ledger.Adjustment, Debit: ledger.Account(c.To), Credit: ledger.Account(c.From),
		Amount: c.Amount, Currency: c.Currency, Object: c.Reference, By: c.By, Why: c.Why,
	}
	for _, a := range []struct{ flag, account string }{{"--from", c.From}, {"--to", c.To}} {
		_, _, tenant, ok := ledger.ReadAccount(ledger.Account(a.account))
		switch {
		case !ok:
			return t, fmt.Errorf("%s: there is no account %q; one is a class and an owner, as in merchant:acme, and the classes are %s", a.flag, a.account, strings.Join(ledger.Classes(), ", "))
		case tenant != "" && t.Tenant != "" && t.Tenant != tenant:
			return t, fmt.Errorf("--from and --to are of two tenants, %s and %s; book one adjustment for each, against an account of no tenant", tenant, t.Tenant)
		case tenant != "":
			t.Tenant = tenant
		}
	}
	switch {
	case c.From == c.To:
		return t, errors.New("--from and --to are one account; name two")
	case c.Amount <= 0 || c.Amount > payment.MaxAmount:
		return t, fmt.Errorf("--amount must be from 1 to %d minor units, is %d; to reverse a booking, exchange --from and --to", int64(payment.MaxAmount), c.Amount)
	case !payment.KnownCurrency(c.Currency):
		return t, fmt.Errorf("--currency must be an ISO 4217 code in lower case, as usd, is %q", c.Currency)
	}
	for _, text := range []struct {
		flag, value string
		most        int
	}{{"--reference", c.Reference, maxReference}, {"--by", c.By, maxDecision}, {"--why", c.Why, maxDecision}} {
		if strings.TrimSpace(text.value) == "" || len(text.value) > text.most || visible(text.value) != text.value {
			return t, fmt.Errorf("%s must be 1 to %d bytes on one line", text.flag, text.most)
		}
	}
	return t, nil
}

func (c *ledgerAdjustCommand) Run(ctx context.Context, io streams) error {
	if _, err := c.adjustment(""); err != nil { // before anything is opened
		return err
	}
	return c.withBooks(ctx, func(s *store) error {
		t, err := c.adjustment(s.homes()[0])
		if err != nil {
			return err
		}
		if who := certified(ctx); who != "" {
			t.By = who + ", note: " + c.By
		}
		if t.Tenant != "" {
			if _, err := s.Tenant(ctx, t.Tenant); errors.Is(err, claim.ErrUnknownTenant) {
				return fmt.Errorf("there is no tenant %q; homeward tenant list names them", t.Tenant)
			} else if err != nil {
				return err
			}
		}
		posted, err := s.adjust(ctx, t)
		if err != nil {
			return err
		}
		if c.JSON {
			return indented(io, struct {
				Transaction string `json:"transaction"`
				Region      string `json:"region"`
				Posted      bool   `json:"posted"`
			}{t.ID, t.Region, posted})
		}
		said := "booked"
		if !posted {
			said = "it was booked before, and is not again"
		}
		fmt.Fprintf(io.out, "%s: %s of %s from %s to %s, in the books of %s\n", visible(t.ID), said, money(t.Amount, t.Currency), t.Credit, t.Debit, t.Region)
		return nil
	})
}

// homes are all regions, in the order of their codes: transactions without a region are
// in the books of the first.
func (s *store) homes() (names []string) {
	for _, code := range slices.Sorted(maps.Keys(s.codes)) {
		names = append(names, s.codes[code])
	}
	return names
}

// adjust books t, unless it is booked already, in any region's books.
func (s *store) adjust(ctx context.Context, t ledger.Transaction) (posted bool, err error) {
	for _, home := range s.homes() {
		there, found, err := s.rows.Transaction(ctx, home, t.ID)
		if err != nil {
			return false, err
		}
		if found {
			t.Region = home
			if !there.Same(t) {
				return false, otherwise(&there)
			}
			return false, nil
		}
	}
	posted, err = s.rows.Post(ctx, t)
	if errors.Is(err, ledger.ErrConflict) { // another process, at this moment
		if there, found, err := s.rows.Transaction(ctx, t.Region, t.ID); err == nil && found {
			return false, otherwise(&there)
		}
	}
	return posted, err
}

func otherwise(there *ledger.Transaction) error {
	return fmt.Errorf("--reference %s names another decision already: %d %s from %s to %s, by %s: %s; give this one a reference of its own",
		visible(there.Object), there.Amount, there.Currency, there.Credit, there.Debit, visible(there.By), visible(there.Why))
}
