package stripe

import (
	sdk "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/payment/psp"
)

// declineClasses sorts Stripe's decline codes (docs.stripe.com/declines/codes) by the
// documented next step for the same payment with the same payment method: soft if
// waiting, funds, the issuer or the payer can change the answer; hard if only another
// payment method can. A code that is not listed is soft: a hard decline is remembered,
// and an unknown code is no ground for that.
var declineClasses = map[sdk.DeclineCode]psp.Class{
	// Funds and limits: they change by themselves.
	sdk.DeclineCodeInsufficientFunds:            psp.Soft,
	sdk.DeclineCodeCardVelocityExceeded:         psp.Soft,
	sdk.DeclineCodeWithdrawalCountLimitExceeded: psp.Soft,
	sdk.DeclineCodeInvalidAmount:                psp.Soft, // "exceeds the amount that's allowed": the balance may be the limit
	// "Attempt the payment again", at once or later.
	sdk.DeclineCodeApproveWithID:      psp.Soft,
	sdk.DeclineCodeIssuerNotAvailable: psp.Soft,
	sdk.DeclineCodeProcessingError:    psp.Soft,
	sdk.DeclineCodeReenterTransaction: psp.Soft,
	sdk.DeclineCodeTryAgainLater:      psp.Soft,
	// A duplicate of a recent payment; later it is none.
	sdk.DeclineCodeDuplicateTransaction: psp.Soft,
	// "Contact the card issuer": unknown reasons, which the issuer may lift.
	sdk.DeclineCodeCallIssuer:     psp.Soft,
	sdk.DeclineCodeDoNotHonor:     psp.Soft,
	sdk.DeclineCodeGenericDecline: psp.Soft,
	sdk.DeclineCodeNoActionTaken:  psp.Soft,
	sdk.DeclineCodeNotPermitted:   psp.Soft,
	// The payer can correct the data of the payment method.
	sdk.DeclineCodeIncorrectCVC:   psp.Soft,
	sdk.DeclineCodeInvalidCVC:     psp.Soft,
	sdk.DeclineCodeIncorrectZip:   psp.Soft,
	sdk.DeclineCodeIncorrectPIN:   psp.Soft,
	sdk.DeclineCodeInvalidPIN:     psp.Soft,
	sdk.DeclineCodePINTryExceeded: psp.Soft,

	// The card was lost, or belongs to another person.
	sdk.DeclineCodeExpiredCard:       psp.Hard,
	sdk.DeclineCodeLostCard:          psp.Hard,
	sdk.DeclineCodeStolenCard:        psp.Hard,
	sdk.DeclineCodePickupCard:        psp.Hard,
	sdk.DeclineCodeFraudulent:        psp.Hard,
	sdk.DeclineCodeMerchantBlacklist: psp.Hard,
	sdk.DeclineCodeSecurityViolation: psp.Hard,
	// There is no such card or account.
	sdk.DeclineCodeIncorrectNumber:                psp.Hard,
	sdk.DeclineCodeInvalidNumber:                  psp.Hard,
	sdk.DeclineCodeInvalidAccount:                 psp.Hard,
	sdk.DeclineCodeInvalidExpiryMonth:             psp.Hard,
	sdk.DeclineCodeInvalidExpiryYear:              psp.Hard,
	sdk.DeclineCodeNewAccountInformationAvailable: psp.Hard,
	// It cannot pay this.
	sdk.DeclineCodeCardNotSupported:           psp.Hard,
	sdk.DeclineCodeCurrencyNotSupported:       psp.Hard,
	sdk.DeclineCodeRestrictedCard:             psp.Hard,
	sdk.DeclineCodeServiceNotAllowed:          psp.Hard,
	sdk.DeclineCodeTransactionNotAllowed:      psp.Hard,
	sdk.DeclineCodeOfflinePINRequired:         psp.Hard,
	sdk.DeclineCodeOnlineOrOfflinePINRequired: psp.Hard,
	sdk.DeclineCodeTestModeDecline:            psp.Hard,
	// Off session no payer can authenticate, and on session it is no decline. The same
	// request would be declined for ever.
	sdk.DeclineCodeAuthenticationRequired: psp.Hard,
	// The payer or the network forbids another attempt.
	sdk.DeclineCodeDoNotTryAgain:                 psp.Hard,
	sdk.DeclineCodeRevocationOfAllAuthorizations: psp.Hard,
	sdk.DeclineCodeRevocationOfAuthorization:     psp.Hard,
	sdk.DeclineCodeStopPaymentOrder:              psp.Hard,
}

// requestClasses are the errors of a request that depend on the world and not on the
// request. All others are psp.Invalid.
var requestClasses = map[sdk.ErrorCode]psp.Class{
	// Our own balance does not cover the transfer or the refund yet.
	sdk.ErrorCodeBalanceInsufficient: psp.Soft,
	// The destination is closed.
	sdk.ErrorCodeAccountClosed: psp.Hard,
}

// declineOf reads the error of a payment that has failed, or of a request that
// was refused.
func declineOf(e *sdk.Error) *psp.Decline {
	if e.Type != sdk.ErrorTypeCard {
		class, ok := requestClasses[e.Code]
		switch {
		case ok:
		case e.Type == sdk.ErrorTypeInvalidRequest:
			class = psp.Invalid
		default:
			class = psp.Soft // Stripe's own trouble
		}
		code := string(e.Code)
		if code == "" {
			code = string(e.Type)
		}
		return &psp.Decline{Class: class, Code: code, Message: e.Msg}
	}
	// decline_code is more specific; there is only code if Stripe itself declined.
	code := string(e.DeclineCode)
	if code == "" {
		code = string(e.Code)
	}
	return declineBy(code, e.Msg)
}

// attemptFailed reads the error of a payment that was attempted. Stripe calls that of a payer who did not
// authenticate one of an invalid request, too: the request was none, as there is a payment of it.
func attemptFailed(e *sdk.Error) *psp.Decline {
	d := declineOf(e)
	if d.Class == psp.Invalid {
		d.Class = psp.Soft
	}
	return d
}

// hidden are the codes for which Stripe asks to show the customer no more than for a
// generic decline. The class still follows from the code itself.
var hidden = map[sdk.DeclineCode]bool{
	sdk.DeclineCodeFraudulent: true, sdk.DeclineCodeLostCard: true, sdk.DeclineCodeStolenCard: true,
	sdk.DeclineCodePickupCard: true, sdk.DeclineCodeMerchantBlacklist: true,
}

// declineBy sorts a decline by its code. The merchant gets the code. If Stripe asks to
// keep it from the customer, the message for the customer does not repeat it.
func declineBy(code, message string) *psp.Decline {
	class, ok := declineClasses[sdk.DeclineCode(code)]
	if !ok {
		class = psp.Soft
	}
	if code == "" {
		code = string(sdk.DeclineCodeGenericDecline)
	}
	if code == string(sdk.DeclineCodeAuthenticationRequired) {
		message = "The payer's bank wants them to authenticate. Charge them again while they are there, with off_session false and a new key."
	}
	if message == "" || hidden[sdk.DeclineCode(code)] {
		message = "The card was declined."
	}
	return &psp.Decline{Class: class, Code: code, Message: message}
}
