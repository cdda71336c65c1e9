package problem

// Entry is the documentation of a code: its usual status and advice, and its page.
// Texts are Markdown with code spans and nothing else.
type Entry struct {
	Code   Code
	Status int
	Retry  Retry
	Title  string
	// Means describes what happened, Safe whether a retry is safe, Do what to do.
	Means, Safe, Do string
}

// table is the single source of the API's errors: responses, pages and documents derive
// from it or are tested against it.
var table = func() map[Code]Entry {
	all := make(map[Code]Entry, len(catalogue))
	for _, e := range catalogue {
		all[e.Code] = e
	}
	return all
}()

// Catalogue returns every code, by status.
func Catalogue() []Entry { return append([]Entry(nil), catalogue...) }

// Codes returns every code of the merchant's contract, by status.
func Codes() []Code {
	var all []Code
	for _, e := range catalogue {
		if e.Code != NotReady && e.Code != Unreachable {
			all = append(all, e.Code)
		}
	}
	return all
}

// Lookup returns the entry of a code.
func Lookup(code Code) (Entry, bool) {
	e, ok := table[code]
	return e, ok
}

var catalogue = []Entry{
	{
		Code: KeyMissing, Status: 400, Retry: Never, Title: "Idempotency-Key is missing",
		Means: "The request moves money and has no `Idempotency-Key` header. Homeward stored no claim and sent nothing to the provider.",
		Safe:  "Yes, once the header is there. Nothing happened.",
		Do:    "Make a key, store it with the order, and send it with the request and with each of its retries.",
	},
	{
		Code: KeyInvalid, Status: 400, Retry: Never, Title: "Idempotency-Key is invalid",
		Means: "The `Idempotency-Key` header cannot be read as one key. `detail` says what is wrong with it.",
		Safe:  "Yes, with a valid key. Nothing happened.",
		Do:    "Send one header of 1 to 255 visible ASCII characters, bare or in double quotes. A UUID is a good key.",
	},
	{
		Code: InvalidRequest, Status: 400, Retry: Never, Title: "The request is invalid",
		Means: "The body or a parameter is not what the API accepts, or the provider refused it as invalid. `member` names the member that is wrong, if it is one. No money moved.",
		Safe:  "The same request fails again. A corrected one is a different request.",
		Do:    "Correct what `detail` and `member` name. If the API refused the request before it claimed the key, the key is unused. If the provider refused it, the key is released to the same request only: a corrected one needs a new key.",
	},
	{
		Code: Unauthorized, Status: 401, Retry: Never, Title: "No valid API key",
		Means: "The request has no API key that this deployment knows. Nothing happened.",
		Safe:  "Yes, with a valid API key.",
		Do:    "Send `Authorization: Bearer` and the key. A new key can take a few seconds to be known at each region.",
	},
	{
		Code: CardDeclined, Status: 402, Retry: NewKey, Title: "The payment was declined",
		Means: "The provider or the payer's bank refused, and no money moved. `code` says why. A hard decline is final: the key keeps it, and `retry` is `new_key`. A soft decline, such as insufficient funds, releases the key: `retry` is `same_key`.",
		Safe:  "A retry never charges twice. After a hard decline the same key replays the same answer. After a soft decline the same key replays the answer until `Retry-After` has passed, and then asks the bank again.",
		Do:    "Show the payer what happened. After a soft decline let a person try again with the same key, not before `Retry-After`. Do not put it into a retry loop: banks count attempts. For another payment method cancel this key, so that no request that was held up asks again, and use a new one.",
	},
	{
		Code: Forbidden, Status: 403, Retry: Never, Title: "Not allowed",
		Means: "The account is known, and is not enabled at this deployment. Nothing happened.",
		Safe:  "Not before the account is enabled.",
		Do:    "Ask who runs the deployment.",
	},
	{
		Code: NotFound, Status: 404, Retry: Never, Title: "Not found",
		Means: "There is no such path, object or key for this account. Objects of another account are not found either.",
		Safe:  "Yes. The answer stays the same while the object does not exist.",
		Do:    "Check the id and the account of the API key. An object that was refused is not found; the answer to its key says why.",
	},
	{
		Code: MethodNotAllowed, Status: 405, Retry: Never, Title: "Method not allowed",
		Means: "The path exists and does not support this method. `Allow` lists the methods that it supports.",
		Safe:  "The same request fails again.",
		Do:    "Use a method of `Allow`.",
	},
	{
		Code: KeyInUse, Status: 409, Retry: SameKey, Title: "A request with this key is in progress",
		Means: "An earlier request with this key is still in progress. This request did nothing.",
		Safe:  "Yes. The same key never charges twice.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key. It reads the answer of the first one.",
	},
	{
		Code: KeyCanceled, Status: 410, Retry: NewKey, Title: "The key was canceled",
		Means: "Your account canceled this key (`POST /v1/idempotency-keys/{key}/cancel`) before a request under it was answered. No money moved under it, or what moved is being refunded.",
		Safe:  "The same key gives the same answer. A new key makes a new payment.",
		Do:    "Treat the payment as not made. If the payer still wants to pay, make a new key. Cancel the key again to read what became of its money.",
	},
	{
		Code: KeyExpired, Status: 410, Retry: NewKey, Title: "The key has expired",
		Means: "The key was used before, and its answer is no longer stored. `original_request_at` says when. The original may have moved money.",
		Safe:  "The same key gives the same answer until it is free again. A new key makes a new payment.",
		Do:    "Find out first what became of the original: by its object's id, your records, or the provider. Send a new key only if it did not move money.",
	},
	{
		Code: BodyTooLarge, Status: 413, Retry: Never, Title: "The body is too large",
		Means: "The body is longer than the API reads. Nothing happened.",
		Safe:  "The same request fails again.",
		Do:    "Send less. Keep large data in your own system, and its id in `metadata`.",
	},
	{
		Code: UnsupportedMediaType, Status: 415, Retry: Never, Title: "Unsupported media type",
		Means: "The body is not JSON in UTF-8, or is compressed. Nothing happened.",
		Safe:  "Yes, with the right media type.",
		Do:    "Send `Content-Type: application/json` and no `Content-Encoding`.",
	},
	{
		Code: FingerprintMismatch, Status: 422, Retry: Never, Title: "The key belongs to a different request",
		Means: "The key was first used with another request: another path, amount or other member. This request was neither executed nor replayed.",
		Safe:  "The same request fails again under this key.",
		Do:    "To repeat the original, send exactly its body. For a new payment make a new key. A mismatch usually means that a key is made from too little, for example from a cart that changed.",
	},
	{
		Code: RateLimited, Status: 429, Retry: SameKey, Title: "Too many requests",
		Means: "The account sent more requests in a short time than it may. This request did nothing.",
		Safe:  "Yes.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key. Spread retries with full jitter.",
	},
	{
		Code: Internal, Status: 500, Retry: SameKey, Title: "Internal error",
		Means: "The service has a fault. The request may have reached its key.",
		Safe:  "Yes, with the same key. It never charges twice.",
		Do:    "Send the same request with the same key, with growing pauses. If it lasts, report the `Traceparent` of the response.",
	},
	{
		Code: Unreachable, Status: 502, Retry: SameKey, Title: "The upstream cannot be reached",
		Means: "The gateway could not send the request to the API behind it, or that API, asked later, does not know it: it did nothing. Only a gateway gives this answer.",
		Safe:  "Yes.",
		Do:    "Send the same request with the same key again, after a pause.",
	},
	{
		Code: StoreUnavailable, Status: 503, Retry: SameKey, Title: "The store is unavailable",
		Means: "The node could not store or read the claim. Without a stored claim it sends nothing to the provider.",
		Safe:  "Yes. The same key never charges twice, wherever it is sent.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key, here or to another region.",
	},
	{
		Code: HomeUnavailable, Status: 503, Retry: SameKey, Title: "The key's home region is unavailable",
		Means: "Neither the key's home region nor its rows can be reached now. The request may have reached its home.",
		Safe:  "Yes. The same key never charges twice, wherever it is sent.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key, here or to another region. Do not make a new key: it can be a second payment.",
	},
	{
		Code: KeyWithheld, Status: 503, Retry: SameKey, Title: "The key is withheld",
		Means: "The service's database was restored from a backup, and its records of a recent time are lost. This key may have been used in that time, and the service does not know yet what for. Meanwhile it does nothing under the key.",
		Safe:  "Yes, with the same key. A new key can be a second payment, unless the request was certainly never sent before.",
		Do:    "Send the same request with the same key later. The service then finds its first answer, or executes the request once it knows that the key is new. A request that you certainly never sent before can be sent now with a key from `POST /v1/idempotency-keys`.",
	},
	{
		Code: OutcomeUnknown, Status: 503, Retry: SameKey, Title: "The outcome is not known yet",
		Means: "The service does not know yet whether money moved. While it asks the provider, `retry` is `same_key`. Once it has stopped asking without a result, the answer is final: the key keeps it, and `retry` is `new_key` for a charge and `never` for a transfer or a refund.",
		Safe:  "Yes, with the same key. A new key before the final answer can be a second payment.",
		Do:    "Send the same request with the same key until the answer changes, or read the object, whose id `GET /v1/idempotency-keys/{key}` gives as `object`. After the final answer you may make a charge again with a new key, because the service refunds one that surfaces later. For a transfer or a refund, a person must ask the provider first.",
	},
	{
		Code: NotReady, Status: 503, Retry: SameKey, Title: "This node is not ready",
		Means: "`GET /readyz` says that this node should get no traffic now. `detail` says why: the node is starting or draining, its region is out of service, or its store could record no charge now. Merchants' requests never get this error.",
		Safe:  "Yes. It is a probe.",
		Do:    "Load balancers send requests to another node. `homeward regions` shows the rest.",
	},
}
