package adyen_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/psptest"
)

// The example of "Verify HMAC signatures": the event, the key and the signature.
const (
	documentedEvent = `{"live":"false","notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},"amount":{"value":1130,"currency":"EUR"},"pspReference":"7914073381342284","eventCode":"AUTHORISATION","eventDate":"2019-05-06T17:15:34.121+02:00","merchantAccountCode":"TestMerchant","operations":["CANCEL","CAPTURE","REFUND"],"merchantReference":"TestPayment-1407325143704","paymentMethod":"visa","success":"true"}}]}`
	documentedKey   = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
)

func TestTheDocumentedSignatureVerifies(t *testing.T) {
	id, err := adapter(t, "", documentedKey).Verify(nil, []byte(documentedEvent), time.Now())
	if err != nil || id != "AUTHORISATION.7914073381342284.true" {
		t.Errorf("got %q, %v", id, err)
	}
	for name, p := range map[string]string{"another key": another, "a shorter key": documentedKey[:62]} {
		if _, err := adapter(t, "", p).Verify(nil, []byte(documentedEvent), time.Now()); !errors.Is(err, psp.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := adapter(t, "", "").Verify(nil, []byte(documentedEvent), time.Now()); !errors.Is(err, psp.ErrUnchecked) {
		t.Errorf("without a key: %v", err)
	}
}

// The signature covers values that are joined by colons without any escape. A value with a colon in
// it could be two of another event.
func TestColonsCannotMoveValues(t *testing.T) {
	n := adapter(t, "", hmacKey)
	sign := func(payload string) string {
		key, err := hex.DecodeString(hmacKey)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(payload))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	body := func(psp, original, reference string) string {
		return fmt.Sprintf(`{"notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":%q},"amount":{"value":5,"currency":"EUR"},"pspReference":%q,"originalReference":%q,"merchantAccountCode":"HomewardSimulator","merchantReference":%q,"eventCode":"REFUND","success":"true"}}]}`,
			sign("P:O:HomewardSimulator:re_1:5:EUR:REFUND:true"), psp, original, reference)
	}
	if _, err := n.Verify(nil, []byte(body("P", "O", "re_1")), time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, moved := range []string{body("P:O", "HomewardSimulator", "re_1"), body("P", "O:HomewardSimulator", "re_1"), body("", "P:O", "re_1")} {
		if _, err := n.Verify(nil, []byte(moved), time.Now()); !errors.Is(err, psp.ErrForged) {
			t.Errorf("%s verifies: %v", moved, err)
		}
	}
}

// event is one as Adyen would send it, unsigned.
func event(code, success, ref, original, merchant string, value int) string {
	return fmt.Sprintf(`{"live":"false","notificationItems":[{"NotificationRequestItem":{"amount":{"currency":"USD","value":%d},"eventCode":%q,"eventDate":"2026-03-01T13:00:00+01:00","merchantAccountCode":%q,"merchantReference":%q,"originalReference":%q,"paymentMethod":"visa","pspReference":%q,"reason":"null","success":%q}}]}`,
		value, code, account, merchant, original, ref, success)
}

func TestRead(t *testing.T) {
	n := adapter(t, "", hmacKey)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	charge := psp.Notice{Movement: true, Kind: psp.KindCharge, Reference: "ch_1", ProviderRef: "PAY", Outcome: psp.Approved, Amount: 1250, Currency: "usd"}
	refund := psp.Notice{Movement: true, Kind: psp.KindRefund, Reference: "re_1", ProviderRef: "REF", Outcome: psp.Approved, Amount: 1250, Currency: "usd"}
	with := func(n psp.Notice, o psp.Outcome) psp.Notice { n.Outcome = o; return n }
	order := func(n psp.Notice, id string) psp.Notice { n.Order = id; return n }
	held := func(n psp.Notice, id string) psp.Notice { n.Held = true; return order(n, id) }
	never := func(n psp.Notice) psp.Notice { n.Outcome, n.Never = psp.Declined, true; return n }
	byItself := func(all ...psp.Unasked) psp.Notice {
		for i := range all {
			all[i].Of, all[i].Reference, all[i].Amount, all[i].Currency = "PAY", "ch_1", 1250, "usd"
		}
		return psp.Notice{Unasked: all}
	}
	dispute := func(kind psp.Kind, status string) psp.Unasked {
		return psp.Unasked{Kind: kind, ProviderRef: "DIS", Status: status}
	}
	ifOpened := func(u psp.Unasked) psp.Unasked { u.IfOpened = true; return u }
	for name, c := range map[string]struct {
		body string
		want psp.Notice
		code string
	}{
		"authorised":                         {event("AUTHORISATION", "true", "PAY", "", "ch_1", 1250), charge, ""},
		"held":                               {event("AUTHORISATION", "true", "PAY", "", "ch_1-held", 1250), held(with(charge, psp.Authorized), ""), ""},
		"refused":                            {event("AUTHORISATION", "false", "PAY", "", "ch_1", 1250), never(charge), "generic_decline"},
		"captured":                           {event("CAPTURE", "true", "CAP", "PAY", "ch_1-held-cap_1", 1250), held(charge, "cap_1"), ""},
		"captured by hand":                   {event("CAPTURE", "true", "CAP", "PAY", "ch_1-held", 1250), held(charge, ""), ""},
		"not captured":                       {event("CAPTURE", "false", "CAP", "PAY", "ch_1-held-cap_1", 1250), held(with(charge, psp.Authorized), "cap_1"), ""},
		"captured, and failed":               {event("CAPTURE_FAILED", "true", "CAP", "PAY", "ch_1-held-cap_1", 1250), order(with(charge, psp.Declined), "cap_1"), "capture_failed"},
		"capture refused":                    {event("CAPTURE", "false", "CAP", "PAY", "ch_1", 1250), with(charge, psp.Declined), "capture_failed"},
		"capture failed":                     {event("CAPTURE_FAILED", "true", "CAP", "PAY", "ch_1", 1250), with(charge, psp.Declined), "capture_failed"},
		"canceled":                           {event("CANCELLATION", "true", "CAN", "PAY", "ch_1-held-can_1", 1250), held(with(charge, psp.Declined), "can_1"), "canceled"},
		"canceled by Adyen":                  {event("TECHNICAL_CANCEL", "true", "CAN", "PAY", "ch_1", 1250), with(charge, psp.Declined), "canceled"},
		"cancellation refused":               {event("CANCELLATION", "false", "CAN", "PAY", "ch_1-held-can_1", 1250), held(with(charge, psp.Authorized), "can_1"), ""},
		"never to be canceled":               {event("CANCELLATION", "false", "CAN", "PAY", "ch_1", 1250), psp.Notice{}, ""},
		"expired":                            {event("EXPIRE", "true", "EXP", "PAY", "ch_1-held", 1250), held(with(charge, psp.Declined), ""), psp.CodeLapsed},
		"expired, as Adyen's example has it": {event("EXPIRE", "true", "PAY", "", "ch_1-held", 1250), held(with(charge, psp.Declined), ""), psp.CodeLapsed},
		"refunded":                           {event("REFUND", "true", "REF", "PAY", "re_1", 1250), refund, ""},
		"refund refused":                     {event("REFUND", "false", "REF", "PAY", "re_1", 1250), never(refund), "refund_failed"},
		"refund failed":                      {event("REFUND_FAILED", "true", "REF", "PAY", "re_1", 1250), with(refund, psp.Declined), "refund_failed"},
		"refund came back":                   {event("REFUNDED_REVERSED", "true", "REF", "PAY", "re_1", 1250), with(refund, psp.Declined), "refund_failed"},
		"refunded by hand":                   {event("REFUND", "true", "REF", "PAY", "ch_1", 1250), byItself(psp.Unasked{Kind: psp.KindRefund, ProviderRef: "REF"}), ""},
		"no refund by hand":                  {event("REFUND", "false", "REF", "PAY", "ch_1", 1250), psp.Notice{}, ""},
		"by hand, held before":               {event("REFUND", "true", "REF", "PAY", "ch_1-held", 1250), byItself(psp.Unasked{Kind: psp.KindRefund, ProviderRef: "REF"}), ""},
		"by hand, and failed":                {event("REFUND_FAILED", "true", "REF", "PAY", "ch_1", 1250), byItself(psp.Unasked{Kind: psp.KindRefund, ProviderRef: "REF", Failed: true}), ""},
		"by hand, came back":                 {event("REFUNDED_REVERSED", "true", "REF", "PAY", "ch_1", 1250), byItself(psp.Unasked{Kind: psp.KindRefund, ProviderRef: "REF", Failed: true}), ""},
		"reversed by hand":                   {event("CANCEL_OR_REFUND", "true", "REF", "PAY", "ch_1", 1250), byItself(psp.Unasked{Kind: psp.KindRefund, ProviderRef: "REF"}), ""},
		"not reversed by hand":               {event("CANCEL_OR_REFUND", "false", "REF", "PAY", "ch_1", 1250), psp.Notice{}, ""},
		"reversed by hand, held before": {event("CANCEL_OR_REFUND", "true", "REF", "PAY", "ch_1-held", 1250), func() psp.Notice {
			n := held(with(charge, psp.Declined), "")
			n.Unasked = byItself(psp.Unasked{Kind: psp.KindRefund, ProviderRef: "REF"}).Unasked
			return n
		}(), "canceled"},
		"not reversed by hand, held": {event("CANCEL_OR_REFUND", "false", "REF", "PAY", "ch_1-held", 1250), psp.Notice{}, ""},
		"a review is rejected":       {event("MANUAL_REVIEW_REJECT", "true", "REV", "PAY", "ch_1", 1250), psp.Notice{}, ""},
		"an inquiry":                 {event("REQUEST_FOR_INFORMATION", "true", "DIS", "PAY", "ch_1", 1250), psp.Notice{}, ""},
		"disputed":                   {event("NOTIFICATION_OF_CHARGEBACK", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeOpened, "needs_response")), ""},
		"charged back":               {event("CHARGEBACK", "true", "DIS", "PAY", "ch_1-held", 1250), byItself(dispute(psp.KindDispute, "needs_response")), ""},
		"defended":                   {event("CHARGEBACK_REVERSED", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeReversal, "under_review")), ""},
		"charged back twice": {event("SECOND_CHARGEBACK", "true", "DIS", "PAY", "ch_1", 1250), byItself(
			psp.Unasked{Kind: psp.KindDispute, ProviderRef: "DIS/second", Dispute: "DIS", Status: "needs_response"}, dispute(psp.KindDisputeLost, "lost")), ""},
		"not defended":         {event("DISPUTE_DEFENSE_PERIOD_ENDED", "true", "DIS", "PAY", "ch_1", 1250), byItself(ifOpened(dispute(psp.KindDisputeLost, "lost"))), ""},
		"pre-arbitration lost": {event("PREARBITRATION_LOST", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeLost, "lost")), ""},
		"arbitration lost":     {event("SCHEME_ARBITRATION_LOST", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeLost, "lost")), ""},
		"pre-arbitration won":  {event("PREARBITRATION_WON", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeWon, "won")), ""},
		"withdrawn":            {event("PREARBITRATION_ISSUER_WITHDRAWN", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeWon, "won")), ""},
		"arbitration won":      {event("SCHEME_ARBITRATION_WON", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeWon, "won")), ""},
		"the issuer is silent": {event("ISSUER_RESPONSE_TIMEFRAME_EXPIRED", "true", "DIS", "PAY", "ch_1", 1250), byItself(dispute(psp.KindDisputeWon, "won")), ""},
		"pre-arbitration":      {event("PREARBITRATION_OPEN", "true", "DIS", "PAY", "ch_1", 1250), psp.Notice{}, ""},
		"another event":        {event("REPORT_AVAILABLE", "true", "REP", "", "ch_1", 0), psp.Notice{}, ""},
		"not ours":             {event("AUTHORISATION", "true", "PAY", "", "order №7: a gift", 1250), psp.Notice{}, ""},
		"like ours":            {event("AUTHORISATION", "true", "PAY", "", "ch_1:2", 1250), psp.Notice{}, ""},
		"another account's":    {strings.Replace(event("AUTHORISATION", "true", "PAY", "", "ch_1", 1250), account, "AnotherShop", 1), psp.Notice{}, ""},
	} {
		got, err := n.Read([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (got.Decline == nil) != (c.code == "") || got.Decline != nil && (got.Decline.Code != c.code || got.Decline.Class != psp.Soft || got.Decline.Message == "") {
			t.Errorf("%s: decline %+v, want %q", name, got.Decline, c.code)
		}
		id := got.ID
		got.Decline, got.ID, c.want.At = nil, "", at
		if !reflect.DeepEqual(got, c.want) || strings.Count(id, ".") != 2 {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, c.want)
		}
	}
	good := event("AUTHORISATION", "true", "PAY", "", "ch_1", 1250)
	for name, body := range map[string]string{
		"cut short":            good[:99],
		"no item":              `{"notificationItems":[]}`,
		"an empty":             `{"notificationItems":[{}]}`,
		"two":                  strings.Replace(good, `"notificationItems":[`, `"notificationItems":[{"NotificationRequestItem":{}},`, 1),
		"no success":           strings.Replace(good, `"success":"true"`, `"success":"maybe"`, 1),
		"no psp":               strings.Replace(good, `"PAY"`, `""`, 1),
		"no amount":            event("AUTHORISATION", "true", "PAY", "", "ch_1", 0),
		"a dispute of nothing": event("CHARGEBACK_REVERSED", "true", "DIS", "", "ch_1", 1250),
		"no payment":           event("CAPTURE", "true", "CAP", "", "ch_1", 1250),
		"oversized":            good + strings.Repeat(" ", psp.MaxNotice),
	} {
		if got, err := n.Read([]byte(body)); !errors.Is(err, psp.ErrMalformed) || !reflect.DeepEqual(got, psp.Notice{}) {
			t.Errorf("%s: got %+v, %v; want %v", name, got, err, psp.ErrMalformed)
		}
	}
}

func FuzzNotices(f *testing.F) {
	psptest.FuzzNotifier(f, adapter(f, "", hmacKey), "Hmacsignature", documentedEvent,
		event("REFUND", "false", "REF", "PAY", "re_1", 1250), event("CAPTURE", "true", "CAP", "PAY", "ch_1-held", 1), `{"notificationItems":[{}]}`, `[]`, ``)
}

func FuzzAnswers(f *testing.F) {
	psptest.FuzzAnswers(f, func(t testing.TB, url string) psp.Provider { return adapter(t, url, hmacKey) },
		`{"pspReference":"PAY","resultCode":"Authorised","merchantReference":"ch_1"}`, `{"pspReference":"PAY","resultCode":"Refused","refusalReason":"Not enough balance","refusalReasonCode":"12"}`,
		`{"pspReference":"CAP","status":"received","paymentPspReference":"PAY"}`, `{"status":422,"errorCode":"14_012","errorType":"validation"}`, `{}`, `[]`, ``)
}
