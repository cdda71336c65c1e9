package claim

// Held is a notice about a charge that holds its money until its capture.
type Held struct {
	// By is the provider that sent it; "" for HeldOrdered.
	By string
	// Ref is the provider's own reference of the charge.
	Ref string
	// Order is our id of the capture or cancellation; "" if it was made at the provider and
	// not by us.
	Order string
	Word  HeldWord
	// Amount is the captured or released amount, in minor units of the charge's
	// Currency.
	Amount   int64
	Currency string
}

// HeldWord is the new state of held money.
type HeldWord uint8

const (
	// HeldOrdered: nothing has changed yet. Order is about to ask for a change, unless
	// another order is under way.
	HeldOrdered HeldWord = iota + 1
	// HeldStill: the money is still held. Order, if any, had no effect.
	HeldStill
	// HeldCaptured: Amount has moved, and the rest is released.
	HeldCaptured
	// HeldReleased: the whole amount is released.
	HeldReleased
)
