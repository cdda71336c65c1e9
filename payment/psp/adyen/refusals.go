package adyen

import "github.com/homeward-io/homeward/payment/psp"

// refusal classifies a refusalReasonCode for the same payment with the same payment
// method: soft if waiting, funds, the issuer or the payer can change the answer; hard
// if only another payment method can, or if another attempt is forbidden.
type refusal struct {
	class psp.Class
	code  string
}

// refusals are those of "Refusal reasons". A code that is not listed is soft: a hard
// decline is remembered, and an unknown code is no ground for that.
var refusals = map[string]refusal{
	"2":  {psp.Soft, "do_not_honor"}, // Refused: the issuer gives no reason
	"3":  {psp.Soft, "call_issuer"},  // Referral
	"4":  {psp.Soft, "processing_error"},
	"5":  {psp.Hard, "blocked_card"},
	"6":  {psp.Hard, "expired_card"},
	"7":  {psp.Soft, "invalid_amount"},
	"8":  {psp.Hard, "incorrect_number"},
	"9":  {psp.Soft, "issuer_not_available"},
	"10": {psp.Hard, "card_not_supported"},
	"11": {psp.Soft, "authentication_failed"}, // 3D Not Authenticated
	"12": {psp.Soft, "insufficient_funds"},
	"14": {psp.Hard, "fraudulent"}, // Acquirer Fraud
	"15": {psp.Soft, "canceled"},
	"16": {psp.Soft, "canceled_by_payer"},
	"17": {psp.Soft, "incorrect_pin"},
	"18": {psp.Soft, "pin_try_exceeded"},
	"19": {psp.Soft, "pin_validation_not_possible"},
	"20": {psp.Hard, "fraudulent"}, // FRAUD: Adyen's own risk checks
	"21": {psp.Soft, "not_submitted"},
	"22": {psp.Hard, "fraudulent"}, // FRAUD-CANCELLED
	"23": {psp.Hard, "transaction_not_allowed"},
	"24": {psp.Soft, "incorrect_cvc"},
	"25": {psp.Hard, "restricted_card"},
	"26": {psp.Hard, "revocation_of_authorization"},
	"27": {psp.Soft, "generic_decline"}, // Declined Non Generic
	"28": {psp.Soft, "withdrawal_amount_limit_exceeded"},
	"29": {psp.Soft, "withdrawal_count_limit_exceeded"},
	"31": {psp.Hard, "fraudulent"}, // Issuer Suspected Fraud
	"32": {psp.Soft, "incorrect_address"},
	"33": {psp.Hard, "online_pin_required"},
	"34": {psp.Hard, "no_checking_account"},
	"35": {psp.Hard, "no_savings_account"},
	"36": {psp.Soft, "mobile_pin_required"},
	"37": {psp.Soft, "contactless_fallback"},
	"38": {psp.Soft, "authentication_required"},
	"39": {psp.Soft, "authentication_failed"}, // RReq not received from DS
	"40": {psp.Soft, "aid_in_penalty_box"},
	"41": {psp.Soft, "verification_required"}, // CVM Required Restart Payment
	"42": {psp.Soft, "authentication_failed"}, // 3DS Authentication Error
	"43": {psp.Hard, "online_pin_required"},
	"44": {psp.Soft, "try_another_interface"},
	"45": {psp.Soft, "chip_downgrade"},
	// Adyen itself refuses attempts for which the card schemes would impose a fine.
	"46": {psp.Hard, "do_not_try_again"},
}

// declined reads the reason of a payment that is Refused, Cancelled or in Error. The
// merchant gets the code. The message is for payers, too, and does not repeat it: "do
// not expose the details of the refusal reason to shoppers".
func declined(result, reasonCode string) *psp.Decline {
	r, ok := refusals[reasonCode]
	if !ok {
		r = refusal{psp.Soft, map[string]string{resultCancelled: "canceled", resultError: "processing_error"}[result]}
		if r.code == "" {
			r.code = "generic_decline"
		}
	}
	return &psp.Decline{Class: r.class, Code: r.code, Message: "The payment was declined."}
}
