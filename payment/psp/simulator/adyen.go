package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// The Adyen-shaped API, version 71 of Checkout, as far as an adapter needs it. It shows
// the same books, with references in Adyen's format.

// adyenAccount is the only merchant account.
const adyenAccount = "HomewardSimulator"

// adyenPrefix starts Adyen's references of 16 characters.
func adyenPrefix(k psp.Kind) string {
	if k == psp.KindRefund {
		return "HWR"
	}
	return "HWC"
}

// adyenID and fromAdyenID convert record i to Adyen's reference, and that to the
// provider's own id.
func adyenID(k psp.Kind, i int) string {
	return adyenPrefix(k) + "0" + strings.ToUpper(strings.TrimPrefix(formatID(k, i), idPrefix(k)))
}

func fromAdyenID(k psp.Kind, id string) (string, bool) {
	digits, ok := strings.CutPrefix(id, adyenPrefix(k)+"0")
	return idPrefix(k) + strings.ToLower(digits), ok && digits == strings.ToUpper(digits)
}

// adyenMoreDecimals is how many more decimals Adyen has than ISO 4217 ("Currency codes
// and minor units"). It is a copy, so that the adapter is tested against an independent
// one.
func adyenMoreDecimals(currency string) int {
	switch currency {
	case "clp", "isk":
		return 2
	case "cve", "idr":
		return -2
	}
	return 0
}

// adyenToken prefixes Adyen's tokens in the books.
const adyenToken = "pm_"

type adyenAmount struct {
	Currency string `json:"currency"`
	Value    int64  `json:"value"`
}

// hundred is the factor of two decimals.
const hundred = 100

func toAdyenAmount(minor int64, currency string) adyenAmount {
	switch adyenMoreDecimals(currency) {
	case 2:
		minor *= hundred
	case -2:
		minor /= hundred
	}
	return adyenAmount{strings.ToUpper(currency), minor}
}

// books converts a to the books' units.
func (a adyenAmount) books() (minor int64, currency string, err error) {
	currency = strings.ToLower(a.Currency)
	if currency == a.Currency || a.Value < 1 || a.Value > 1<<56 {
		return 0, "", errors.New("Invalid amount specified")
	}
	switch adyenMoreDecimals(currency) {
	case 2:
		if a.Value%hundred != 0 {
			return 0, "", errors.New("Invalid amount specified: the books of this provider have no decimals of " + a.Currency)
		}
		return a.Value / hundred, currency, nil
	case -2:
		return a.Value * hundred, currency, nil
	}
	return a.Value, currency, nil
}

// adyenPayment is PaymentRequest, adyenModification the common members of the requests
// for modifications. Any other member is refused.
type adyenPayment struct {
	Amount          adyenAmount `json:"amount"`
	MerchantAccount string      `json:"merchantAccount"`
	Reference       string      `json:"reference"`
	ReturnURL       string      `json:"returnUrl"`
	PaymentMethod   struct {
		Type                  string `json:"type"`
		StoredPaymentMethodID string `json:"storedPaymentMethodId"`
	} `json:"paymentMethod"`
	ShopperReference         string            `json:"shopperReference"`
	ShopperInteraction       string            `json:"shopperInteraction"`
	RecurringProcessingModel string            `json:"recurringProcessingModel"`
	CaptureDelayHours        *int              `json:"captureDelayHours"`
	AdditionalData           map[string]string `json:"additionalData"`
	ShopperStatement         string            `json:"shopperStatement"`
	MerchantOrderReference   string            `json:"merchantOrderReference"`
	Metadata                 map[string]string `json:"metadata"`
}

type adyenModification struct {
	MerchantAccount string      `json:"merchantAccount"`
	Reference       string      `json:"reference"`
	Amount          adyenAmount `json:"amount"`
}

// adyenPaid is PaymentResponse.
type adyenPaid struct {
	PSPReference      string       `json:"pspReference"`
	RefusalReason     string       `json:"refusalReason,omitempty"`
	ResultCode        string       `json:"resultCode"`
	RefusalReasonCode string       `json:"refusalReasonCode,omitempty"`
	Amount            *adyenAmount `json:"amount,omitempty"`
	MerchantReference string       `json:"merchantReference"`
}

// adyenReceived is PaymentRefundResponse, PaymentCaptureResponse or PaymentCancelResponse.
type adyenReceived struct {
	MerchantAccount     string       `json:"merchantAccount"`
	PaymentPSPReference string       `json:"paymentPspReference"`
	PSPReference        string       `json:"pspReference"`
	Reference           string       `json:"reference"`
	Status              string       `json:"status"`
	Amount              *adyenAmount `json:"amount,omitempty"` // not of a cancellation
}

// adyenError is ServiceError.
type adyenError struct {
	Status    int    `json:"status"`
	ErrorCode string `json:"errorCode"`
	Message   string `json:"message"`
	ErrorType string `json:"errorType"`
}

// adyenHandler serves /v71/… in Adyen's spelling.
func (s *Simulator) adyenHandler() http.Handler {
	mux := http.NewServeMux()
	d := dialect{read: s.readAdyenCall, outcome: s.writeAdyenOutcome, refuse: refuseAdyen, firstAnswer: true}
	mux.HandleFunc("POST /v71/payments", s.move(psp.KindCharge, d))
	mux.HandleFunc("POST /v71/payments/{payment}/refunds", s.move(psp.KindRefund, d))
	mux.HandleFunc("POST /v71/payments/{payment}/captures", s.adyenOrders(approved))
	mux.HandleFunc("POST /v71/payments/{payment}/cancels", s.adyenOrders(canceledCharge))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") == "" {
			write(w, http.StatusUnauthorized, adyenError{http.StatusUnauthorized, "000", "HTTP Status Response - Unauthorized", "security"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Simulator) readAdyenCall(w http.ResponseWriter, r *http.Request, kind psp.Kind) (psp.Call, int, error) {
	call := psp.Call{Kind: kind, Key: r.Header.Get("Idempotency-Key")}
	var account string
	var money adyenAmount
	if kind == psp.KindRefund {
		var m adyenModification
		if status, err := readJSON(w, r, &m); err != nil {
			return psp.Call{}, status, err
		}
		account, money, call.Reference = m.MerchantAccount, m.Amount, m.Reference
		call.Source, _ = fromAdyenID(psp.KindCharge, r.PathValue("payment"))
	} else {
		var m adyenPayment
		if status, err := readJSON(w, r, &m); err != nil {
			return psp.Call{}, status, err
		}
		if err := m.check(); err != nil {
			return psp.Call{}, http.StatusUnprocessableEntity, err
		}
		account, money, call.Reference = m.MerchantAccount, m.Amount, bookedReference(m.Reference)
		if m.manual() {
			call.Terms = &psp.Terms{Manual: true}
		}
		call.Source, call.Description = adyenToken+m.PaymentMethod.StoredPaymentMethodID, m.ShopperStatement
	}
	if account != adyenAccount {
		return psp.Call{}, http.StatusForbidden, errors.New("Invalid Merchant Account")
	}
	var err error
	if call.Amount, call.Currency, err = money.books(); err != nil {
		return psp.Call{}, http.StatusUnprocessableEntity, err
	}
	return call, http.StatusUnprocessableEntity, validate(call)
}

// check refuses what Adyen would refuse, or what this provider does not have.
func (m *adyenPayment) check() error {
	for name, missing := range map[string]bool{
		"returnUrl": m.ReturnURL == "", "reference": m.Reference == "", "paymentMethod.type": m.PaymentMethod.Type != "scheme",
		"shopperReference": len(m.ShopperReference) < 3, "shopperInteraction": m.ShopperInteraction != "ContAuth",
		"recurringProcessingModel": m.RecurringProcessingModel == "",
	} {
		if missing {
			return fmt.Errorf("Required field '%s' is not provided.", name)
		}
	}
	if !m.manual() && (m.CaptureDelayHours == nil || *m.CaptureDelayHours != 0 || m.AdditionalData["manualCapture"] != "") {
		return errors.New("captureDelayHours must be 0, or manualCapture true: this provider captures at once, or on request")
	}
	return nil
}

// manual reports whether the money is held until a capture ("Capture", manual capture of an
// individual payment).
func (m *adyenPayment) manual() bool {
	return m.CaptureDelayHours == nil && m.AdditionalData["manualCapture"] == "true"
}

// adyenRefusals are declines of a charge in Adyen's terms ("Refusal reasons").
var adyenRefusals = map[outcome]struct{ code, reason string }{
	insufficientFunds: {"12", "Not enough balance"},
	stolenCard:        {"5", "Blocked Card"},
}

func (s *Simulator) writeAdyenOutcome(w http.ResponseWriter, rec record, i int) {
	refusal, refused := adyenRefusals[rec.outcome]
	money := toAdyenAmount(rec.amount, string(rec.currency[:]))
	switch {
	case rec.outcome == invalidPaymentMethod:
		writeAdyenError(w, http.StatusUnprocessableEntity, "800", "Contract not found")
	case rec.outcome == chargeNotFound:
		writeAdyenError(w, http.StatusUnprocessableEntity, "167", "Original pspReference required for this operation")
	case rec.kind() == psp.KindRefund:
		write(w, http.StatusCreated, adyenReceived{
			MerchantAccount: adyenAccount, PaymentPSPReference: s.adyenCharge(i), PSPReference: adyenID(psp.KindRefund, i),
			Reference: rec.reference(), Status: "received", Amount: &money,
		})
	case refused:
		write(w, http.StatusOK, adyenPaid{
			PSPReference: adyenID(psp.KindCharge, i), ResultCode: "Refused", RefusalReason: refusal.reason,
			RefusalReasonCode: refusal.code, MerchantReference: s.referenceAtAdyen(i),
		})
	default:
		write(w, http.StatusOK, adyenPaid{
			PSPReference: adyenID(psp.KindCharge, i), ResultCode: "Authorised", Amount: &money, MerchantReference: s.referenceAtAdyen(i),
		})
	}
}

func (s *Simulator) referenceAtAdyen(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adyenReference(i)
}

// adyenCharge is the charge that refund i refunds.
func (s *Simulator) adyenCharge(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return adyenID(psp.KindCharge, int(s.book.refundOf[uint32(i)]))
}

func writeAdyenError(w http.ResponseWriter, status int, code, message string) {
	write(w, status, adyenError{status, code, message, "validation"})
}

// refuseAdyen writes a refusal. A request that had no effect is transient ("API
// idempotency").
func refuseAdyen(w http.ResponseWriter, status int, class, code, message string) {
	switch {
	case status == http.StatusForbidden:
		write(w, status, adyenError{status, "901", message, "security"})
	case class == "invalid":
		writeAdyenError(w, status, "702", message)
	case code == "unavailable":
		w.Header().Set("transient-error", "true")
		write(w, status, adyenError{status, "703", "required resource temporarily unavailable", "internal"})
	default:
		write(w, status, adyenError{status, "905", message, "internal"})
	}
}

// adyenItem is a NotificationRequestItem.
type adyenItem struct {
	AdditionalData      map[string]string `json:"additionalData"`
	Amount              adyenAmount       `json:"amount"`
	EventCode           string            `json:"eventCode"`
	EventDate           string            `json:"eventDate"`
	MerchantAccountCode string            `json:"merchantAccountCode"`
	MerchantReference   string            `json:"merchantReference"`
	OriginalReference   string            `json:"originalReference,omitempty"`
	PaymentMethod       string            `json:"paymentMethod"`
	PSPReference        string            `json:"pspReference"`
	Reason              string            `json:"reason"`
	Success             string            `json:"success"`
}

// adyenEvent is the notice that Adyen would send: of record i, about movement id.
func adyenEvent(rec record, reference string, i, id, charge int, failed bool, key []byte) ([]byte, error) {
	item := adyenItem{
		Amount: toAdyenAmount(rec.amount, string(rec.currency[:])), EventCode: "AUTHORISATION",
		EventDate: time.Unix(0, rec.at).UTC().Format(time.RFC3339), MerchantAccountCode: adyenAccount,
		MerchantReference: reference, PaymentMethod: "visa", PSPReference: adyenID(rec.kind(), id),
		Success: strconv.FormatBool(failed || rec.outcome == approved || rec.outcome == authorized),
	}
	switch {
	case rec.kind() == psp.KindRefund:
		item.OriginalReference, item.EventCode = adyenID(psp.KindCharge, charge), "REFUND"
		if failed {
			item.EventCode, item.Reason = "REFUND_FAILED", "Refund Failed"
		} else if rec.outcome != approved {
			item.Reason = "Insufficient balance on payment"
		}
	case failed:
		item.EventCode, item.Reason = "CAPTURE_FAILED", "Capture Failed"
		item.PSPReference, item.OriginalReference = adyenID(psp.KindCharge, i), item.PSPReference
	case item.Success == "false":
		item.Reason = adyenRefusals[rec.outcome].reason
	}
	return item.signed(key)
}

// signed is a webhook with the one event.
func (item adyenItem) signed(key []byte) ([]byte, error) {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s:%s:%s:%s:%d:%s:%s:%s", item.PSPReference, item.OriginalReference, item.MerchantAccountCode, // a hash takes everything
		item.MerchantReference, item.Amount.Value, item.Amount.Currency, item.EventCode, item.Success)
	item.AdditionalData = map[string]string{"hmacSignature": base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	type wrapped struct {
		Item adyenItem `json:"NotificationRequestItem"`
	}
	return json.Marshal(struct {
		Live  string    `json:"live"`
		Items []wrapped `json:"notificationItems"`
	}{"false", []wrapped{{item}}})
}

// adyenKey parses the key that signs events.
func adyenKey(secret string) ([]byte, error) { return hex.DecodeString(secret) }
