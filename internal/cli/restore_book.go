package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/recon"
)

type restoreBookCommand struct {
	storeFlags
	Mismatches string `arg:"" type:"path" placeholder:"FILE" help:"What homeward reconcile --out has written."`
	JSON       bool   `name:"json" help:"Print JSON lines."`
}

// Help returns the text that homeward restore book --help adds.
func (restoreBookCommand) Help() string {
	return `Books what is charged_but_unknown_to_us in FILE, where the audit shows its merchant and that the merchant was sent a success: under the charge's own id, so that refunds find it. Everything else is left, with the reason. No event is emitted, and nothing is given back.

It works once no key of what is lost would be remembered any more, and before homeward restore end. Until then a retry of the request books its charge.

Exit code 0: all are booked; 1: some are a person's.`
}

// restoreBooked is a line of the JSON of homeward restore book.
type restoreBooked struct {
	Object      string `json:"object"`
	Tenant      string `json:"tenant,omitempty"`
	ProviderRef string `json:"provider_ref"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Booked      bool   `json:"booked"`
	Why         string `json:"why,omitempty"`
}

func (c *restoreBookCommand) Run(ctx context.Context, io streams) error {
	all, err := readLost(c.Mismatches)
	if err != nil {
		return err
	}
	return c.withRows(ctx, func(s *store) error {
		t, booked, lines := lostColumns.list(io), 0, json.NewEncoder(io.out)
		err := restore.Book(ctx, s, s.rows, all, func(b restore.Booking) {
			said := "booked"
			if b.Why == "" {
				booked++
			} else {
				said = b.Why
			}
			if c.JSON {
				_ = lines.Encode(restoreBooked{b.Object, b.Tenant, b.Ref, b.Amount, b.Currency, b.Why == "", b.Why})
				return
			}
			t.row(b.Object, b.Tenant, money(b.Amount, b.Currency), b.Ref, said)
		})
		if !c.JSON {
			err = errors.Join(err, t.Flush())
		}
		if err == nil && booked < len(all) {
			err = &exitError{exitDiffers, fmt.Errorf("%d of %d movements are not booked; each line says why", len(all)-booked, len(all))}
		}
		return err
	})
}

// readLost reads the movements without a record from what a comparison has written.
func readLost(path string) (all []restore.Movement, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := json.NewDecoder(bufio.NewReader(f))
	for n := 1; ; n++ {
		var m recon.Mismatch
		switch err := lines.Decode(&m); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil || m.Class == "":
			return nil, fmt.Errorf("%s: line %d is no mismatch; name what homeward reconcile --out has written", path, n)
		case m.Class != recon.ChargedButUnknown || m.Reference == "":
			continue // another kind of mismatch, or none of a comparison
		}
		operation := map[psp.Kind]payment.Operation{psp.KindCharge: payment.Charge, psp.KindTransfer: payment.Transfer, psp.KindRefund: payment.Refund}[m.Kind]
		all = append(all, restore.Movement{Object: m.Reference, Ref: m.ProviderRef, Operation: operation, Amount: m.Stated, Currency: m.StatedCurrency})
	}
}
