// Package simulator is a payment provider for tests: an HTTP service with durable
// dedupe of its own, scriptable faults, and a count of how many times money moved. It
// shares no code with Homeward, so a test may rely on its count.
//
// # Movements
//
//	POST /v1/charges, /v1/transfers, /v1/refunds
//	Idempotency-Key: <provider key>
//	{"reference","amount","currency","source","description"}
//
//	200 {"id":"psp_ch_…","status":"succeeded","reference","amount","currency","created"}
//	402 {"error":{"class":"soft|hard|invalid","code","message"}}
//	409 {"error":{"class":"key_reuse",…}}   the key was used with other parameters
//	400 {"error":{"class":"invalid",…}}     malformed; not remembered
//	5xx {"error":{"class":"server",…}}      a fault, or storage that failed
//
// The first approval or decline under a key is that key's answer for ever,
// byte for byte. A call without a key is never recognised again: each one is a
// new movement, which is how a provider without dedupe behaves.
//
//	GET /v1/lookup?kind=charge&reference=ch_…
//
// answers 200 with the body of the approval, or, where the reference was only
// ever declined, with "status":"declined" and the last decline's error; 404 with
// class "not_found" when nothing is known (yet).
//
// Config makes a provider with fewer capabilities: IgnoreParameters repeats a key's
// first answer whatever parameters come with it, IgnoreKeys makes each call a movement
// of its own, and NoLookup answers look-ups with 501. A simulator with both is a
// provider with no dedupe at all.
//
//	GET /v1/movements?kind=charge&id=psp_ch_…
//
// answers with the body of that approval, or with 404 as above. A movement that has
// failed since (see POST /_sim/fail) has "status":"failed" and an error in both; its
// key keeps its first answer.
//
// # Stripe's spelling
//
// Below /stripe the same books are shown as Stripe would: POST
// /v1/payment_intents (created and confirmed at once), with /confirm, /capture and
// /cancel of one, /v1/transfers, /v1/refunds;
// GET /v1/payment_intents/search by metadata['homeward_reference'], /v1/transfers
// by transfer_group, /v1/refunds, and each object by its id. Bodies are forms, any
// key that starts with sk_ opens, and ids are pi_…, tr_… and re_… with the digits
// of psp_ch_…, psp_tr_… and psp_re_….
//
// # Adyen's spelling
//
// Below /adyen they are shown as Adyen's Checkout API would: POST /v71/payments with a
// stored card, and /v71/payments/{pspReference}/refunds, which is answered received and
// told of in an event. The merchant account is HomewardSimulator, any X-API-Key opens,
// storedPaymentMethodId is a test token without pm_, and references are HWC0… and HWR0… with the
// digits of psp_ch_… and psp_re_…. A key is answered as the first time, whatever comes
// with it.
//
// # Test tokens
//
// A charge's source: pm_card_visa approves; pm_card_insufficient_funds declines
// softly; pm_card_insufficient_funds_once declines softly only while nothing is
// recorded under the reference, so that a new key for the same reference
// approves; pm_card_stolen declines hard; pm_card_try_again_later and
// pm_card_do_not_try_again decline softly, in Stripe's spelling with advice; any other pm_card_… approves; anything
// else is invalid. A transfer's source: acct_closed declines hard, any other
// acct_… approves, anything else is invalid. A refund's source is the id of an
// approved charge; what is refunded never exceeds what was charged. What is disputed is refunded all
// the same: a look-up has in disputed how much of a charge its payer disputes, or has back by a dispute.
//
// In Stripe's spelling a charge may wait. pm_card_3ds (or Stripe's own
// pm_card_authenticationRequired) requires_action on session and is declined off session;
// pm_bank_debit is processing. Either waits for POST /_sim/act, or, as pm_card_3ds_240s and
// pm_bank_debit_172800s, for so many seconds, after which it succeeds, or fails with _fails
// behind. With capture_method manual money is held.
//
// # What a test reads and sets
//
//	GET /_sim/summary   what happened, see [Summary]
//	GET /_sim/stats     the same and more, see [Stats]
//	GET /_sim/effects   one JSON line per movement, see [Effect]
//	GET, PUT /_sim/faults   see [Faults]
//	POST /_sim/late/release   lets calls of late_effect take effect now
//	POST /_sim/act {"id":"pi_…","act":"succeed|fail"}   who a charge waits for acts
//	POST /_sim/fail {"id":"psp_re_…"}   a charge or refund that succeeded fails
//	POST /_sim/unasked   the provider does something by itself, see [Unasked]
//	GET /_sim/statement?format=csv|jsonl|stripe&from=&to=&ids=stripe
//	GET, PUT /_sim/webhooks   see [Notices], [NoticeStats]
//	POST /_sim/webhooks/release?order=in_order|reversed|shuffled
//	POST /_sim/webhooks/discard   forgets what is held
//
// A statement has one line per movement, see [StatementLine]; its CSV form starts with
// the line id,kind,reference,of,amount,currency,created. The bounds are times as in RFC
// 3339; from is inclusive, to exclusive. As stripe it is Stripe's itemized report of
// the balance: settle=usd&rates=eur:1.084 convert what payers paid, fee=290:30 (in
// ten-thousandths, and minor units) and dispute_fee=1500 are deducted, and metadata=no
// omits our references.
//
// # Notices
//
// Each movement is reported to every target of [Notices], in a POST signed as Standard
// Webhooks has it, until the target answers 2xx:
//
//	{"id":"evt_…","type":"charge.succeeded","created","data":{…}}
//
// where data is the body of a look-up. A movement that fails later is reported as
// refund.failed or charge.failed, with its id, and stated in a line of its own, of the
// kind refund_failed or charge_failed. Movements without a request are reported as
// dispute.opened, .withdrawn, .reinstated, .won or .lost, refund.succeeded without a
// reference, transfer.reversed, payout.paid or .returned, with the id of the movement
// that they are about in of. A target with "stripe" gets Stripe's event and signature
// instead, one with "adyen" Adyen's. Delivery is at least once: if a process ends
// before it saw an event accepted, the next sends the event again, with the same id. An
// event recorded as accepted (webhooks.json, each second) is not sent again.
//
// # Durability
//
// An outcome is in the journal (journal.jsonl, one line each) and synced before it is
// answered or counted; concurrent calls share a sync. A last line that the death of the
// process cut short was never answered, and is dropped at the next start. Damage
// anywhere else stops the start with an error: a wrong count would be worse than none.
package simulator
