// Code generated from internal/problem/catalogue.go by make generate. DO NOT EDIT.

package client

// The codes of [Error], by status. docs/ERRORS.md describes each. Later versions of the API may
// have more: treat one that is not here by its [Error].Retry.
const (
	// CodeKeyMissing: Idempotency-Key is missing. Status 400.
	CodeKeyMissing = "idempotency_key_missing"
	// CodeKeyInvalid: Idempotency-Key is invalid. Status 400.
	CodeKeyInvalid = "idempotency_key_invalid"
	// CodeInvalidRequest: The request is invalid. Status 400.
	CodeInvalidRequest = "invalid_request"
	// CodeUnauthorized: No valid API key. Status 401.
	CodeUnauthorized = "unauthorized"
	// CodeCardDeclined: The payment was declined. Status 402.
	CodeCardDeclined = "card_declined"
	// CodeForbidden: Not allowed. Status 403.
	CodeForbidden = "forbidden"
	// CodeNotFound: Not found. Status 404.
	CodeNotFound = "not_found"
	// CodeMethodNotAllowed: Method not allowed. Status 405.
	CodeMethodNotAllowed = "method_not_allowed"
	// CodeKeyInUse: A request with this key is in progress. Status 409.
	CodeKeyInUse = "idempotency_key_in_use"
	// CodeKeyCanceled: The key was canceled. Status 410.
	CodeKeyCanceled = "idempotency_key_canceled"
	// CodeKeyExpired: The key has expired. Status 410.
	CodeKeyExpired = "idempotency_key_expired"
	// CodeBodyTooLarge: The body is too large. Status 413.
	CodeBodyTooLarge = "body_too_large"
	// CodeUnsupportedMediaType: Unsupported media type. Status 415.
	CodeUnsupportedMediaType = "unsupported_media_type"
	// CodeFingerprintMismatch: The key belongs to a different request. Status 422.
	CodeFingerprintMismatch = "idempotency_key_fingerprint_mismatch"
	// CodeRateLimited: Too many requests. Status 429.
	CodeRateLimited = "rate_limited"
	// CodeInternal: Internal error. Status 500.
	CodeInternal = "internal"
	// CodeStoreUnavailable: The store is unavailable. Status 503.
	CodeStoreUnavailable = "store_unavailable"
	// CodeHomeUnavailable: The key's home region is unavailable. Status 503.
	CodeHomeUnavailable = "home_unavailable"
	// CodeKeyWithheld: The key is withheld. Status 503.
	CodeKeyWithheld = "idempotency_key_withheld"
	// CodeOutcomeUnknown: The outcome is not known yet. Status 503.
	CodeOutcomeUnknown = "outcome_unknown"
)
