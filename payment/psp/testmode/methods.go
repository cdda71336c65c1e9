package testmode

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Method is a payment method, or a destination of transfers, for one outcome. docs/API.md lists
// them.
type Method struct {
	Token string
	// Outcome is what merchants see, a sentence for docs/API.md.
	Outcome string
	answer  answer
	// refund answers refunds of its charges; nil: they succeed.
	refund answer
}

// answer is what a call gets, and what is reported later. ref is the reference of its movement.
type answer func(call *psp.Call, ref string) (psp.Result, []psp.Notice)

// How long what happens later takes.
const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

const (
	// anyCard begins any other card, which succeeds.
	anyCard   = "pm_card_"
	tokenSlow = "pm_card_slow"
)

// Methods are the payment methods with an outcome of their own, in the order of docs/API.md.
func Methods() []Method {
	return []Method{
		{Token: "pm_card_visa", Outcome: "succeeds, as does any other `pm_card_…`; held with `capture_method` `manual`", answer: succeeds},
		{Token: tokenSlow, Outcome: "succeeds after 5 s", answer: succeeds},
		{Token: "pm_card_insufficient_funds", Outcome: "declined for now: 402 `card_declined`, code `insufficient_funds`, `retry` `same_key`", answer: declines(psp.Decline{Class: psp.Soft, Code: "insufficient_funds", Message: "The card has insufficient funds."})},
		{Token: "pm_card_insufficient_funds_once", Outcome: "declined for now; the next try with the same key succeeds", answer: declinesOnce},
		{Token: "pm_card_try_again_later", Outcome: "declined for now; the bank asks to wait for an hour", answer: declines(psp.Decline{Class: psp.Soft, Code: "try_again_later", Message: "The card was declined for now.", RetryIn: hour})},
		{Token: "pm_card_stolen", Outcome: "declined for good: 402 `card_declined`, code `stolen_card`", answer: declines(psp.Decline{Class: psp.Hard, Code: "stolen_card", Message: "The card was reported stolen."})},
		{Token: "pm_unknown", Outcome: "refused by the provider: 400 `invalid_request`, code `payment_method_invalid`", answer: declines(psp.Decline{Class: psp.Invalid, Code: "payment_method_invalid", Message: "There is no such test payment method.", Member: "payment_method"})},
		{Token: "pm_card_3ds", Outcome: "`requires_action` if the payer is present (`off_session` `false`); the payer authenticates after a minute. Else declined for good, code `authentication_required`", answer: asks(minute, psp.Approved)},
		{Token: "pm_card_3ds_fails", Outcome: "as `pm_card_3ds`, but the payer fails to authenticate: declined for now, code `payment_failed`, `retry` `same_key`", answer: asks(minute, psp.Declined)},
		{Token: "pm_card_3ds_abandoned", Outcome: "as `pm_card_3ds`, but the payer never acts: 402 `card_declined`, code `expired` after `expires_at`, or after a day", answer: asks(0, psp.Unknown)},
		{Token: "pm_bank_debit", Outcome: "`processing`; the bank pays after two days", answer: settles(psp.Approved)},
		{Token: "pm_bank_debit_fails", Outcome: "`processing`; the bank refuses after two days: declined for now, code `payment_failed`, `retry` `same_key`. A retry begins a new debit", answer: settles(psp.Declined)},
		{Token: "pm_card_no_answer", Outcome: "unknown: 503 `outcome_unknown`; turns out to have succeeded after a minute", answer: silent(minute)},
		{Token: "pm_card_unknown", Outcome: "503 `outcome_unknown`, `retry` `same_key`, for each request and read of it while Homeward asks again and again. It gives up after some hours: the same `error` with `retry` `new_key`, stored and replayed, and `charge.failed`. Let a day pass, and then 5 minutes", answer: silent(0)},
		{Token: "pm_card_provider_down", Outcome: "the provider cannot be reached: 503 `outcome_unknown`, and nothing is sent to it; 402 `card_declined`, code `expired` after `expires_at`", answer: down},
		{Token: "pm_card_fails_later", Outcome: "succeeds, and fails after three days: `charge.failed`", answer: failsLater(3 * day)},
		{Token: "pm_card_dispute_won", Outcome: "succeeds; disputed after a day, and decided for you a week later", answer: disputed(psp.KindDisputeReversal, psp.KindDisputeWon)},
		{Token: "pm_card_dispute_lost", Outcome: "succeeds; disputed after a day, and decided for the payer a week later", answer: disputed(psp.KindDisputeLost)},
		{Token: "pm_card_refund_fails", Outcome: "succeeds; each refund of it succeeds, and fails after a day: `refund.failed`", answer: succeeds, refund: failsLater(day)},
		{Token: "pm_card_refund_waits", Outcome: "succeeds; each refund of it is `processing` for a day", answer: succeeds, refund: settlesIn(day, psp.Approved)},
		{Token: "pm_card_ghost", Outcome: "declined for good; after an hour its money moves all the same, and Homeward refunds it", answer: ghost},
	}
}

// Destinations are the destinations of transfers with an outcome of their own.
func Destinations() []Method {
	return []Method{
		{Token: "acct_paid", Outcome: "succeeds, as does any other `acct_…`", answer: succeeds},
		{Token: "acct_closed", Outcome: "declined for good: 402 `card_declined`, code `account_closed`", answer: declines(psp.Decline{Class: psp.Hard, Code: "account_closed", Message: "The account was closed."})},
		{Token: "acct_fails_later", Outcome: "succeeds, and fails after three days: `transfer.failed`", answer: failsLater(3 * day)},
		{Token: "acct_returned", Outcome: "succeeds, and is returned after a day: `transfer.reversed`", answer: returned},
	}
}

func declined(class psp.Class, code, message, member string) psp.Result {
	return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: class, Code: code, Message: message, Member: member}}
}

func succeeds(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
	if call.Kind == psp.KindCharge && call.Terms != nil && call.Terms.Manual {
		return psp.Result{Outcome: psp.Authorized, ProviderRef: ref}, nil
	}
	return psp.Result{Outcome: psp.Approved, ProviderRef: ref}, nil
}

func declines(d psp.Decline) answer {
	return func(*psp.Call, string) (psp.Result, []psp.Notice) {
		return psp.Result{Outcome: psp.Declined, Decline: &d}, nil
	}
}

// declinesOnce names its movement, which the next try then continues.
func declinesOnce(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
	if call.Again != "" {
		return succeeds(call, ref)
	}
	r := declined(psp.Soft, "insufficient_funds", "The card has insufficient funds.", "")
	r.ProviderRef = ref
	return r, nil
}

// outcome is the notice of a call's outcome, so long after it.
func outcome(call *psp.Call, ref string, after time.Duration, is psp.Outcome) psp.Notice {
	n := psp.Notice{
		After: after, Movement: true, Kind: call.Kind, Reference: call.Reference, ProviderRef: ref, Key: call.Key,
		Outcome: is, Amount: call.Amount, Currency: call.Currency,
	}
	if is == psp.Declined {
		n.Never, n.Decline = true, &psp.Decline{Class: psp.Soft, Code: "payment_failed", Message: "The payer, or the bank, did not pay."}
	}
	if call.Kind == psp.KindCharge && call.Terms != nil && call.Terms.Manual && is == psp.Approved {
		n.Held, n.Outcome = true, psp.Authorized
	}
	return n
}

// asks asks the payer to authenticate, who does that later; unknown: never.
func asks(after time.Duration, is psp.Outcome) answer {
	return func(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
		if call.Terms == nil || !call.Terms.OnSession {
			return declined(psp.Hard, "authentication_required", "The card was declined, as the payer has to authenticate and is not present.", ""), nil
		}
		r := psp.Result{Outcome: psp.Pending, ProviderRef: ref, Wait: &psp.Wait{
			State: psp.RequiresAction, ClientSecret: ref + "_secret", NextAction: json.RawMessage(`{"type":"test","test":{"act":"none; the payer acts by itself"}}`),
		}}
		if is == psp.Unknown {
			return r, nil
		}
		return r, []psp.Notice{outcome(call, ref, after, is)}
	}
}

func settles(is psp.Outcome) answer { return settlesIn(2*day, is) }

// settlesIn is a method that takes its time.
func settlesIn(after time.Duration, is psp.Outcome) answer {
	return func(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
		return psp.Result{Outcome: psp.Pending, ProviderRef: ref, Wait: &psp.Wait{State: psp.Processing}}, []psp.Notice{outcome(call, ref, after, is)}
	}
}

var errSilent = errors.New("the test payment method asks for no answer")

// silent never answers. The call turns out to have succeeded after a while; 0: never.
func silent(after time.Duration) answer {
	return func(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
		r := psp.Result{Err: errSilent}
		if after == 0 {
			return r, nil
		}
		return r, []psp.Notice{outcome(call, ref, after, psp.Approved)}
	}
}

func down(*psp.Call, string) (psp.Result, []psp.Notice) {
	return psp.Result{Err: &psp.NotSentError{RetryIn: 10 * time.Second, Reason: "the test payment method asks for a provider that is down"}}, nil
}

// failsLater succeeds, and its money goes back later.
func failsLater(after time.Duration) answer {
	return func(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
		r, _ := succeeds(call, ref)
		n := outcome(call, ref, after, psp.Declined)
		n.Never, n.Decline.Code = false, "failed_after_success"
		return r, []psp.Notice{n}
	}
}

// disputed succeeds and is disputed; ends are the steps that decide it.
func disputed(ends ...psp.Kind) answer {
	return func(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
		r, _ := succeeds(call, ref)
		step := func(after time.Duration, kinds ...psp.Kind) psp.Notice {
			n := psp.Notice{After: after}
			for _, kind := range kinds {
				n.Unasked = append(n.Unasked, psp.Unasked{
					Kind: kind, ProviderRef: ref + "_dispute", Of: ref, Reference: call.Reference, Amount: call.Amount, Currency: call.Currency, Reason: "fraudulent",
				})
			}
			return n
		}
		return r, []psp.Notice{step(day, psp.KindDisputeOpened, psp.KindDispute), step(8*day, ends...)}
	}
}

// ghost is declined, and its money moves later.
func ghost(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
	return declined(psp.Hard, "do_not_honor", "The card was declined.", ""), []psp.Notice{outcome(call, ref, hour, psp.Approved)}
}

// returned succeeds, and all of it comes back later.
func returned(call *psp.Call, ref string) (psp.Result, []psp.Notice) {
	r, _ := succeeds(call, ref)
	return r, []psp.Notice{{After: day, Unasked: []psp.Unasked{{
		Kind: psp.KindTransferReversal, ProviderRef: ref + "_return", Of: ref, Reference: call.Reference, Amount: call.Amount, Currency: call.Currency,
	}}}}
}
