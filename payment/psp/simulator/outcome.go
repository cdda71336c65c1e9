package simulator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

// outcome is an outcome's number in memory; the journal holds its code.
type outcome uint8

const (
	approved outcome = iota
	insufficientFunds
	stolenCard
	invalidPaymentMethod
	accountClosed
	invalidDestination
	chargeNotFound
	refundExceedsCharge
	currencyMismatch
	// failedSince is no outcome of a call: an approved movement has failed.
	failedSince
	// happened is no outcome of a call, either: money moved without a request.
	happened
	// A charge waits for its payer or for a bank, or holds money.
	needsAction
	processing
	authorized
	canceledCharge
	authenticationRequired
	authenticationFailed
	tryAgainLater
	doNotTryAgain
	// orderRefused is a capture or cancellation that was received and had no effect:
	// the charge is unchanged.
	orderRefused
	// What an act requests. No record has these.
	confirmedAgain
	settledLater
	unsettledLater
)

// open reports whether v leaves a charge undecided.
func (v outcome) open() bool { return v == needsAction || v == processing || v == authorized }

// Payment methods with special behaviour, see the package comment.
const (
	tokenAction = "pm_card_3ds"
	tokenDebit  = "pm_bank_debit"
)

// outcomes holds each decline's code, class and message. They are part of
// replies that are repeated for ever: add rows, never change one.
var outcomes = [...]psp.Decline{
	approved:             {Code: "approved"},
	insufficientFunds:    {Class: psp.Soft, Code: "insufficient_funds", Message: "The card has insufficient funds."},
	stolenCard:           {Class: psp.Hard, Code: "stolen_card", Message: "The card was reported stolen."},
	invalidPaymentMethod: {Class: psp.Invalid, Code: "invalid_payment_method", Message: "The payment method does not exist."},
	accountClosed:        {Class: psp.Hard, Code: "account_closed", Message: "The destination account is closed."},
	invalidDestination:   {Class: psp.Invalid, Code: "invalid_destination", Message: "The destination does not exist."},
	chargeNotFound:       {Class: psp.Invalid, Code: "charge_not_found", Message: "The charge to refund does not exist."},
	refundExceedsCharge:  {Class: psp.Invalid, Code: "refund_exceeds_charge", Message: "The refunds would exceed the charge."},
	currencyMismatch:     {Class: psp.Invalid, Code: "currency_mismatch", Message: "A refund is made in the currency of its charge."},
	happened:             {Code: "happened_unasked"},
	failedSince:          {Class: psp.Soft, Code: "failed_after_success", Message: "The movement had succeeded, and has failed since."},

	needsAction:            {Code: "requires_action"},
	processing:             {Code: "processing"},
	authorized:             {Code: "requires_capture"},
	canceledCharge:         {Class: psp.Soft, Code: "canceled", Message: "The payment was canceled."},
	authenticationRequired: {Class: psp.Hard, Code: "authentication_required", Message: "The card was declined, as the transaction requires authentication."},
	authenticationFailed:   {Class: psp.Soft, Code: "payment_intent_authentication_failure", Message: "The payer was not authenticated, or the bank did not pay."},
	tryAgainLater:          {Class: psp.Soft, Code: "try_again_later", Message: "The card was declined for now."},
	doNotTryAgain:          {Class: psp.Soft, Code: "do_not_honor", Message: "The card was declined."},
	orderRefused:           {Code: "order_refused", Message: "The charge is not in a state that allows this."},
}

func parseOutcome(code string) (outcome, error) {
	for v, d := range outcomes {
		if d.Code == code && code != "" {
			return outcome(v), nil
		}
	}
	return 0, fmt.Errorf("unknown verdict %q", code)
}

// judge decides a call that is new. It depends on nothing but the call and what
// is already on the book.
func (b *book) judge(call psp.Call) outcome {
	switch call.Kind {
	case psp.KindTransfer:
		return judgeTransfer(call.Source)
	case psp.KindRefund:
		return b.judgeRefund(call)
	default:
		return b.judgeCharge(call)
	}
}

func (b *book) judgeCharge(call psp.Call) outcome {
	switch call.Source {
	case "pm_card_insufficient_funds":
		return insufficientFunds
	case "pm_card_insufficient_funds_once":
		if _, tried := b.findReference(call.Kind, call.Reference); !tried {
			return insufficientFunds
		}
		return approved
	case "pm_card_stolen":
		return stolenCard
	case "pm_card_try_again_later":
		return tryAgainLater
	case "pm_card_do_not_try_again":
		return doNotTryAgain
	case "pm_card_authenticationRequired":
		call.Source = tokenAction
	}
	switch onSession := call.Terms != nil && call.Terms.OnSession; {
	case strings.HasPrefix(call.Source, tokenAction) && onSession:
		return needsAction
	case strings.HasPrefix(call.Source, tokenAction):
		return authenticationRequired
	case strings.HasPrefix(call.Source, tokenDebit):
		return processing
	case strings.HasPrefix(call.Source, "pm_card_") && call.Terms != nil && call.Terms.Manual:
		return authorized
	}
	if strings.HasPrefix(call.Source, "pm_card_") {
		return approved
	}
	return invalidPaymentMethod
}

func judgeTransfer(destination string) outcome {
	switch {
	case destination == "acct_closed":
		return accountClosed
	case strings.HasPrefix(destination, "acct_"):
		return approved
	default:
		return invalidDestination
	}
}

func (b *book) judgeRefund(call psp.Call) outcome {
	i, ok := parseID(psp.KindCharge, call.Source)
	if !ok || i >= b.len() {
		return chargeNotFound
	}
	charge := b.at(i)
	switch {
	case charge.kind() != psp.KindCharge || !b.isSettled(i):
		return chargeNotFound
	case string(charge.currency[:]) != call.Currency:
		return currencyMismatch
	case call.Amount > b.amount(i)-b.refunded[uint32(i)]:
		return refundExceedsCharge
	default:
		return approved
	}
}

// parseID is the inverse of formatID.
func parseID(k psp.Kind, id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, idPrefix(k))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n == 0 || formatID(k, int(n)-1) != id {
		return 0, false
	}
	return int(n) - 1, true
}

const (
	// maxText bounds keys, references and sources, in bytes: it is the longest
	// Idempotency-Key the merchant's contract allows, and fits a uint8.
	maxText = 255
	// currencyLen is the length of an ISO 4217 code.
	currencyLen = 3
)

// validate refuses requests that no provider could execute. The error names the member.
func validate(c psp.Call) error {
	switch c.Kind {
	case psp.KindCharge, psp.KindTransfer, psp.KindRefund:
	default:
		return fmt.Errorf("kind: %q is not charge, transfer or refund", c.Kind)
	}
	if c.Key != "" && !visible(c.Key) {
		return fmt.Errorf("Idempotency-Key: must be 1 to %d visible ASCII characters", maxText)
	}
	if !visible(c.Reference) {
		return fmt.Errorf("reference: must be 1 to %d visible ASCII characters", maxText)
	}
	if !visible(c.Source) {
		return fmt.Errorf("source: must be 1 to %d visible ASCII characters", maxText)
	}
	if c.Amount <= 0 {
		return fmt.Errorf("amount: must be a positive number of minor units")
	}
	if len(c.Currency) != currencyLen || strings.Trim(c.Currency, "abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("currency: must be %d lower-case letters", currencyLen)
	}
	return nil
}

func visible(s string) bool {
	if len(s) == 0 || len(s) > maxText {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
