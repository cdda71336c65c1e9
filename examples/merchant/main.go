// Command merchant pays for an order once, whatever fails on the way: kill it at any
// moment and run it again. The order's file is its memory, and has the idempotency key
// before the first request is sent.
//
//	homeward demo &
//	go run ./examples/merchant --order order-7.json --amount 1999
//
// With --wait 10s the order's page times out after that. Then the order is not paid, and never will
// be: what has been charged by then, or is charged later, goes back to the payer.
//
// API_KEY is the merchant's API key, by default one of the demo's. It is no flag: every user of a
// machine can read its command lines.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/homeward-io/homeward/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "merchant:", err)
		os.Exit(1)
	}
}

// order is the shop's record of an order.
type order struct {
	Amount int64  `json:"amount"`
	Card   string `json:"card"`
	// Key is the idempotency key of the payment in progress.
	Key string `json:"key"`
	// Declined is why the card was declined: the outcome of Key is no.
	Declined string `json:"declined,omitempty"`
	// Charge is the payment, once it is made.
	Charge string `json:"charge,omitempty"`
	// GivenUp: the page timed out. It is stored before the key is canceled, so that no later run pays.
	GivenUp bool `json:"given_up,omitempty"`
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("merchant", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a mistake is one line, and not all flags
	path := flags.String("order", "order.json", "the order's `file`")
	amount := flags.Int64("amount", 0, "what it costs, in cents")
	card := flags.String("card", "", "the payment `method`; by default the order's own, and pm_card_visa for a new order")
	wait := flags.Duration("wait", 0, "how long the order's page waits for an outcome before it gives the order up; 0: for as long as it takes")
	urls := flags.String("urls", "http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083", "the regions' APIs, the nearest first")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(out)
			flags.Usage()
		}
		return err
	}
	// RegionCode makes keys with their home at the region of the first URL: the demo's us-east1 has
	// code 1. A deployment's operator has its codes; without one, leave it out.
	c, err := client.New(client.Config{BaseURLs: strings.Split(*urls, ","), APIKey: cmp.Or(os.Getenv("API_KEY"), "sk_demo_acme"), RegionCode: 1})
	if err != nil {
		return err
	}
	o, err := load(*path)
	if errors.Is(err, fs.ErrNotExist) {
		if *amount <= 0 {
			return errors.New("--amount is missing; set it to what the order costs, in cents")
		}
		if o.Key, err = c.NewKey(); err != nil {
			return err
		}
		o.Amount, o.Card = *amount, cmp.Or(*card, "pm_card_visa")
		err = o.save(*path) // before anything is sent
	}
	if err != nil {
		return err
	}
	if *amount != 0 && *amount != o.Amount {
		return fmt.Errorf("the order in %s costs %d cents and not %d; leave --amount out, or name another file with --order", *path, o.Amount, *amount)
	}
	if *wait <= 0 || o.Charge != "" || o.GivenUp {
		return o.pay(ctx, c, *path, cmp.Or(*card, o.Card), out)
	}
	page, leave := context.WithTimeout(ctx, *wait)
	defer leave()
	if err := o.pay(page, c, *path, cmp.Or(*card, o.Card), out); page.Err() == nil || ctx.Err() != nil || o.Charge != "" {
		return err
	}
	o.GivenUp = true
	if err := o.save(*path); err != nil {
		return err
	}
	return o.giveUp(ctx, c, out)
}

// giveUp cancels the key of an order whose page has timed out: nobody knows whether the payer was
// charged. It may be repeated. Whatever moved goes back, whether anybody asks again or not.
func (o *order) giveUp(ctx context.Context, c *client.Client, out io.Writer) error {
	gone, err := c.CancelKey(ctx, o.Key)
	if err != nil {
		return fmt.Errorf("the order is given up, and its key is not canceled yet (%w); run this again, which is safe", err)
	}
	fmt.Fprintln(out, "given up:", gone.Outcome)
	return nil
}

// pay continues a payment until it has an outcome, or returns what a person has to do.
func (o *order) pay(ctx context.Context, c *client.Client, path, card string, out io.Writer) error {
	if o.GivenUp {
		return o.giveUp(ctx, c, out)
	}
	if o.Charge != "" {
		fmt.Fprintln(out, "paid already:", o.Charge)
		return nil
	}
	if o.Declined != "" {
		if card != o.Card {
			// Another card is another payment, so it gets another key. The declined card is not
			// charged again, also not by a request that was held up on its way: its key is canceled first.
			if err := closed(c.CancelKey(ctx, o.Key)); err != nil {
				return fmt.Errorf("the payment with %s is not closed yet (%w); run this again, which is safe", o.Card, err)
			}
			key, err := c.NewKey()
			if err != nil {
				return err
			}
			o.Key, o.Card = key, card
		}
		o.Declined = "" // stored before the request, which may charge and get no answer
		if err := o.save(path); err != nil {
			return err
		}
	}
	if card != o.Card {
		fmt.Fprintln(out, "the payment with", o.Card, "may have been made; its outcome comes first")
	}
	// The client retries the request under the same key, in the next region if needed.
	charge, err := c.Charge(ctx, client.ChargeParams{Amount: o.Amount, Currency: "usd", PaymentMethod: o.Card, IdempotencyKey: o.Key})
	var refused *client.Error
	switch {
	case err == nil && charge.Status != "succeeded":
		// The payer has to authenticate, or the bank takes days.
		return fmt.Errorf("the payment %s is %s; run this again later, which is safe", charge.ID, charge.Status)
	case err == nil:
		o.Charge = charge.ID
		fmt.Fprintln(out, "paid:", charge.ID)
		return o.save(path)
	case !errors.As(err, &refused):
		return err
	case refused.Code == client.CodeCardDeclined || refused.Code == client.CodeKeyCanceled: // by a run that was killed then
		o.Declined = cmp.Or(refused.DeclineCode, refused.Code)
		if err := o.save(path); err != nil {
			return err
		}
		if card != o.Card {
			return o.pay(ctx, c, path, card, out)
		}
		// "same_key" on a soft decline is for a person who tries again later, and not for
		// a loop: the card has not changed.
		return fmt.Errorf("declined (%s); ask the payer for another card, and run this with --card", o.Declined)
	case refused.Retry == client.RetrySameKey:
		return fmt.Errorf("it is unknown whether this was paid (%w); run this again, which is safe", err)
	case refused.Code == client.CodeOutcomeUnknown || refused.Code == client.CodeKeyExpired:
		// Unknown is not no.
		return fmt.Errorf("it is unknown whether this was paid (%w); find out before it is paid anew", err)
	default:
		return fmt.Errorf("not paid, and a repeat changes nothing: %w", err)
	}
}

// closed is nil if a key takes no more requests: it is canceled, and what moved under it goes back, or its
// time is over.
func closed(_ *client.Cancellation, err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == client.CodeKeyExpired {
		return nil
	}
	return err
}

func load(path string) (o order, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(text, &o)
}

// save replaces the file as a whole: a crash leaves the old one or the new one.
func (o *order) save(path string) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has another name by then
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
