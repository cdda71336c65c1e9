package problem

// CatalogueBehind returns every code of a gateway, by status, with the texts of a gateway's pages: it knows
// no payments, and keeps no promise about the API behind it but that it sends a request once.
func CatalogueBehind() []Entry {
	var all []Entry
	for _, e := range catalogue {
		if b, ok := behind[e.Code]; ok {
			e.Title, e.Means, e.Safe, e.Do = b.Title, b.Means, b.Safe, b.Do
			all = append(all, e)
		}
	}
	return all
}

// behind has what differs from the catalogue. A code that is not there is no gateway's.
var behind = map[Code]Entry{
	KeyMissing: {
		Title: "The request has no key",
		Means: "The route of this request wants a key, in the `Idempotency-Key` header or in a member of the body, and there is none. `detail` says where it belongs. The API behind the gateway got nothing.",
		Safe:  "Yes, once the key is there. Nothing happened.",
		Do:    "Make a key, store it, and send it with the request and with each of its retries.",
	},
	KeyInvalid: {
		Title: "The key is invalid",
		Means: "The key cannot be read as one. `detail` says what is wrong with it. The API behind the gateway got nothing.",
		Safe:  "Yes, with a valid key. Nothing happened.",
		Do:    "Send one key of 1 to 255 visible ASCII characters. A UUID is a good key.",
	},
	InvalidRequest: {
		Title: "The request is invalid",
		Means: "The gateway cannot take the request as it is, or the answer to a cancel: the request of the key was done. `detail` says which.",
		Safe:  "The same request fails again.",
		Do:    "Correct what `detail` names. What was done can be undone at the API behind the gateway alone.",
	},
	Unauthorized: {
		Title: "The request does not say whose it is",
		Means: "The gateway tells tenants apart, by a header of its proxy, a token or a client certificate, and this request has none that counts. `detail` says what is wanted. The API behind the gateway got nothing.",
		Safe:  "Yes, with what `detail` names.",
		Do:    "Send what `detail` names. If a proxy sends it for you, ask who runs the gateway.",
	},
	Forbidden: {
		Title: "Not allowed",
		Means: "The tenant of this request is not enabled at this gateway. The API behind the gateway got nothing.",
		Safe:  "Not before the tenant is enabled.",
		Do:    "Ask who runs the gateway.",
	},
	NotFound: {
		Title: "Not found",
		Means: "The gateway has no such path of its own, or no request of this tenant was sent with this key, or long ago.",
		Safe:  "Yes. The answer stays the same until a request is sent with the key.",
		Do:    "Check the path, the key and the tenant. If routes have tenants of their own, or keys by path, add the request: `GET /_homeward/idempotency-keys/{key}?method=POST&path=/orders`.",
	},
	MethodNotAllowed: {
		Title: "Method not allowed",
		Means: "The path is the gateway's own and does not support this method. `Allow` lists the methods that it supports.",
		Safe:  "The same request fails again.",
		Do:    "Use a method of `Allow`.",
	},
	KeyInUse: {
		Title: "A request with this key is in progress",
		Means: "An earlier request with this key is still in progress. This one was not sent to the API behind the gateway.",
		Safe:  "Yes. The gateway sends nothing twice under a key, unless the API recognises the repeat.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key. It reads the reply to the first one.",
	},
	KeyCanceled: {
		Title: "The key was canceled",
		Means: "This key was canceled (`POST /_homeward/idempotency-keys/{key}/cancel`) before the API behind the gateway did anything under it, and takes no more requests.",
		Safe:  "The same key gives the same answer. With a new key the request is another one, and is sent.",
		Do:    "If the request is still wanted, send it with a new key.",
	},
	KeyExpired: {
		Title: "The key has expired",
		Means: "The key was used before, and the reply is no longer stored. `original_request_at` says when. The API behind the gateway may have done the request.",
		Safe:  "The same key gives the same answer until it is free again. With a new key the request is sent, and can be done twice.",
		Do:    "Find out at the API behind the gateway what became of the request. Send it with a new key only if it was not done.",
	},
	BodyTooLarge: {
		Title: "The body is too large",
		Means: "The body is longer than the gateway reads on this route (`body_bytes`). The API behind the gateway got nothing.",
		Safe:  "The same request fails again.",
		Do:    "Send less, or ask who runs the gateway for a higher limit.",
	},
	UnsupportedMediaType: {
		Title: "Unsupported media type",
		Means: "The body of a request to the gateway's own paths is not JSON in UTF-8, or is compressed. Nothing happened.",
		Safe:  "Yes, with the right media type.",
		Do:    "Send no body, or `Content-Type: application/json` and no `Content-Encoding`.",
	},
	FingerprintMismatch: {
		Title: "The key belongs to a different request",
		Means: "The key was first used with another request: another path, body, or header that counts, as other credentials. This one was neither sent nor answered from the store.",
		Safe:  "The same request fails again under this key.",
		Do:    "To repeat the original, send exactly that. For a new request make a new key. A mismatch usually means that a key is made from too little, for example from a cart that changed.",
	},
	RateLimited: {
		Title: "Too many requests",
		Means: "The tenant sent more requests in a short time than it may. The API behind the gateway did not get this one.",
		Safe:  "Yes.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key. Spread retries with full jitter.",
	},
	Internal: {
		Title: "Internal error",
		Means: "The gateway has a fault. The request may have reached its key.",
		Safe:  "Yes, with the same key. With a new key the request can be done twice.",
		Do:    "Send the same request with the same key, with growing pauses. If it lasts, report the `Traceparent` of the response.",
	},
	Unreachable: {
		Title: "The upstream cannot be reached",
		Means: "The gateway could not send the request to the API behind it, or that API, asked later, does not know it: it did nothing.",
		Safe:  "Yes.",
		Do:    "Send the same request with the same key again, after a pause.",
	},
	StoreUnavailable: {
		Title: "The store is unavailable",
		Means: "The gateway cannot read or write now what it records of requests. It sends nothing that it has not recorded. An earlier request with the key may have been done.",
		Safe:  "Yes, with the same key, wherever it is sent. With a new key the request can be done twice.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key, here or to another region.",
	},
	HomeUnavailable: {
		Title: "The key's home region is unavailable",
		Means: "Neither the key's home region nor its rows can be reached now. The request may have reached its home.",
		Safe:  "Yes, with the same key, wherever it is sent. With a new key the request can be done twice.",
		Do:    "Wait for `Retry-After`, then send the same request with the same key, here or to another region.",
	},
	KeyWithheld: {
		Title: "The key is withheld",
		Means: "The gateway's database was restored from a backup, and its records of a recent time are lost. This key may have been used in that time. Meanwhile nothing is sent under it.",
		Safe:  "Yes, with the same key. With a new key the request can be done twice.",
		Do:    "Send the same request with the same key later.",
	},
	OutcomeUnknown: {
		Title: "The outcome is not known",
		Means: "The request may have been sent, and the gateway does not know whether the API behind it has done it. While that may still be learned, `retry` is `same_key`. The final answer has `retry` `never`, and the key keeps it.",
		Safe:  "Yes, with the same key: nothing is sent that the API does not recognise as a repeat. With a new key the request can be done twice, also after the final answer.",
		Do:    "Send the same request with the same key until the answer changes; `GET /_homeward/idempotency-keys/{key}` shows what happened so far. After the final answer find out at the API behind the gateway. Send the request with a new key only if it certainly was not done: the gateway undoes nothing.",
	},
	NotReady: {
		Title: "This node is not ready",
		Means: "`GET /_homeward/readyz` says that this node should get no traffic now. `detail` says why: the node is starting or draining, its region is out of service, or its store cannot record requests now.",
		Safe:  "Yes. It is a probe.",
		Do:    "Load balancers send requests to another node. `homeward regions` shows the rest.",
	},
}
