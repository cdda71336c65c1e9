package psp

import "time"

// Movements that a provider makes or tells of without being asked to, in notices and in
// statements.
const (
	// KindDisputeOpened: the payer disputes a charge. KindDispute: its money has been
	// withdrawn from us. KindDisputeReversal: it is with us again. KindDisputeWon and
	// KindDisputeLost: it has been decided, for us or for the payer. Money moves by the
	// second and the third alone.
	KindDisputeOpened   Kind = "dispute_opened"
	KindDispute         Kind = "dispute"
	KindDisputeReversal Kind = "dispute_reversal"
	KindDisputeWon      Kind = "dispute_won"
	KindDisputeLost     Kind = "dispute_lost"
	// KindTransferReversal: a transfer, or a part of it, has come back.
	KindTransferReversal Kind = "transfer_reversal"
	// KindPayout: the provider has paid out to our bank.
	KindPayout Kind = "payout"
	// KindPayoutReversal: a payout has come back.
	KindPayoutReversal Kind = "payout_reversal"
	// KindTopUp: the provider has taken money from our bank, as for a balance below zero.
	// Statements alone tell of it.
	KindTopUp Kind = "top_up"
	// KindFee: the provider has kept a fee. KindFeeRefund: it has given one back.
	KindFee       Kind = "fee"
	KindFeeRefund Kind = "fee_refund"
	// KindCaptureReversal: the part of a charge that was authorized and never captured, as
	// a statement has it that states the authorization whole.
	KindCaptureReversal Kind = "capture_reversal"
)

// Unasked is a movement that we did not request, as a [Notice] reports it: a KindRefund made
// by hand at the provider, or one of the kinds above.
type Unasked struct {
	Kind Kind
	// ProviderRef is the provider's own id: of the dispute, the refund, the reversal, the
	// payout.
	ProviderRef string
	// Of is the provider's own id of the charge or transfer that it is about; of a payout
	// that came back, that of the payout. "" where it is about none.
	Of string
	// Reference is our id of what Of names, "" where the provider does not repeat it.
	Reference string
	// Dispute is the provider's own id of the dispute where ProviderRef is of this step of it
	// alone, as of money that is withdrawn once more. "": ProviderRef is the dispute's.
	Dispute string
	// Known: it follows from nothing unless the dispute is known to be opened.
	Known bool
	// Amount is in minor units of Currency, above 0.
	Amount   int64
	Currency string
	// Failed: the refund has failed, now or since.
	Failed bool
	// Reason is the provider's code of why; Status its word for how a dispute stands.
	Reason, Status string
	// DueBy is until when a dispute can be answered; zero where nothing says so.
	DueBy time.Time
}
