import type { Event } from './types.js';
/** Node's request.headers, a Headers, or a plain object. */
export type Headers = globalThis.Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
export interface WebhookOptions {
    /** How far the time of a delivery may be from now, in seconds. Default 300. */
    readonly toleranceSeconds?: number;
    /** The time, in ms. For tests. */
    readonly now?: number;
}
/** The delivery is not ours, too old, or changed on the way. Answer 400 and do nothing. */
export declare class WebhookError extends Error {
    readonly name = "WebhookError";
}
/**
 * Checks a delivery as Standard Webhooks says and returns its event. body is the raw body,
 * as it came: JSON that was parsed and written again has another signature. secrets are
 * whsec_…; several while one replaces the other. Deliveries repeat: keep event.id, and act
 * once.
 */
export declare function verifyWebhook(body: string | Uint8Array, headers: Headers, secrets: string | readonly string[], o?: WebhookOptions): Event;
