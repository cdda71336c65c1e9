package psp

import "time"

// Movements that a provider makes or reports without a request of ours, in notices and
// in statements.
const (
	// KindDisputeOpened: the payer disputes a charge. KindDispute: the provider has
	// withdrawn its money from us. KindDisputeReversal: the provider has returned it.
	// KindDisputeWon and KindDisputeLost: it has been decided, for us or for the payer.
	// Money moves by the second and the third alone.
	KindDisputeOpened   Kind = "dispute_opened"
	KindDispute         Kind = "dispute"
	KindDisputeReversal Kind = "dispute_reversal"
	KindDisputeWon      Kind = "dispute_won"
	KindDisputeLost     Kind = "dispute_lost"
	// KindTransferReversal: a transfer, or a part of it, was returned.
	KindTransferReversal Kind = "transfer_reversal"
	// KindPayout: the provider has paid out to our bank.
	KindPayout Kind = "payout"
	// KindPayoutReversal: a payout was returned.
	KindPayoutReversal Kind = "payout_reversal"
	// KindTopUp: the provider has debited our bank, as for a balance below zero. Only
	// statements report it.
	KindTopUp Kind = "top_up"
	// KindFee: the provider has kept a fee. KindFeeRefund: it has returned one.
	KindFee       Kind = "fee"
	KindFeeRefund Kind = "fee_refund"
	// KindCaptureReversal: the part of a charge that was authorized and never captured,
	// in a statement that lists the whole authorization.
	KindCaptureReversal Kind = "capture_reversal"
)

// Unasked is a movement that we did not request, as a [Notice] reports it: a KindRefund made
// by hand at the provider, or one of the kinds above.
type Unasked struct {
	Kind Kind
	// ProviderRef is the provider's own id: of the dispute, the refund, the reversal, the
	// payout.
	ProviderRef string
	// Of is the provider's own id of the charge or transfer that it is about; for a
	// returned payout, that of the payout. "" if it is about none.
	Of string
	// Reference is our id of the movement in Of, "" if the provider does not repeat it.
	Reference string
	// Dispute is the provider's own id of the dispute if ProviderRef names this step of
	// it alone, such as a second withdrawal. "": ProviderRef is the dispute's.
	Dispute string
	// IfOpened: nothing follows from it unless the dispute is booked as opened.
	IfOpened bool
	// Amount is in minor units of Currency, above 0.
	Amount   int64
	Currency string
	// Failed: the refund has failed, now or since.
	Failed bool
	// Reason is the provider's code for the cause; Status its status of a dispute.
	Reason, Status string
	// DueBy is until when a dispute can be answered; zero if the provider did not report it.
	DueBy time.Time
}
