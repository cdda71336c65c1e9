package psp

// Movements that a provider makes or tells of without being asked to, in notices and in
// statements.
const (
	// KindDispute: the payer disputes a charge, and its money has been withdrawn from us.
	KindDispute Kind = "dispute"
	// KindDisputeReversal: what was withdrawn for a dispute is with us again.
	KindDisputeReversal Kind = "dispute_reversal"
	// KindTransferReversal: a transfer, or a part of it, has come back.
	KindTransferReversal Kind = "transfer_reversal"
	// KindPayout: the provider has paid out to our bank.
	KindPayout Kind = "payout"
	// KindPayoutReversal: a payout has come back.
	KindPayoutReversal Kind = "payout_reversal"
	// KindFee: the provider has kept a fee. KindFeeRefund: it has given one back.
	KindFee       Kind = "fee"
	KindFeeRefund Kind = "fee_refund"
	// KindCaptureReversal: the part of a charge that was authorized and never captured, as
	// a statement has it that states the authorization whole.
	KindCaptureReversal Kind = "capture_reversal"
)
