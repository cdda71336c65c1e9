export { Homeward, type Answer, type CallOptions, type Config, type Declined, type Found, type Outcome, type Succeeded, type Unknown, type WhyUnknown } from './client.js';
export { homeOf, newKey } from './key.js';
export { HomewardError, type ErrorCode, type Problem, type Retry } from './error.js';
export { verifyWebhook, WebhookError, type Headers as WebhookHeaders, type WebhookOptions } from './webhook.js';
export type { Cancellation, Charge, ChargeList, ChargeNow, ChargeParams, CaptureParams, Event, EventObject, KeyStatus, ListChargesParams, ListRefundsParams, Refund, RefundList, RefundNow, RefundParams, Transfer, TransferNow, TransferParams } from './types.js';
export type { components, operations, paths, webhooks } from './api.js';
