import { createHmac, timingSafeEqual } from 'node:crypto';
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
export class WebhookError extends Error {
  override readonly name = 'WebhookError';
}

/**
 * Verifies a delivery as in Standard Webhooks and returns its event. body is the raw body: JSON
 * that was parsed and serialised again has another signature. secrets are whsec_…; pass both
 * while one replaces the other. Homeward repeats deliveries: store event.id, and act once.
 */
export function verifyWebhook(body: string | Uint8Array, headers: Headers, secrets: string | readonly string[], o: WebhookOptions = {}): Event {
  const id = header(headers, 'webhook-id');
  const timestamp = header(headers, 'webhook-timestamp');
  const signatures = header(headers, 'webhook-signature');
  if (!/^[0-9]{1,12}$/.test(timestamp)) throw new WebhookError('homeward: webhook-timestamp is not a Unix time');
  const now = (o.now ?? Date.now()) / 1000;
  if (Math.abs(now - Number(timestamp)) > (o.toleranceSeconds ?? 300)) throw new WebhookError('homeward: the delivery is too old or too new; it may be replayed');
  const expected = (typeof secrets === 'string' ? [secrets] : secrets).map((secret) =>
    createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.`).update(body).digest());
  const sent = signatures.split(' ').filter((s) => s.startsWith('v1,')).map((s) => Buffer.from(s.slice(3), 'base64'));
  if (!sent.some((s) => expected.some((e) => s.length === e.length && timingSafeEqual(s, e)))) {
    throw new WebhookError('homeward: no signature matches; is the body raw, and the secret this endpoint\'s?');
  }
  let event: Event | null;
  try {
    event = JSON.parse(typeof body === 'string' ? body : Buffer.from(body).toString('utf8')) as Event | null;
  } catch (cause) {
    throw new WebhookError('homeward: the body is not JSON', { cause });
  }
  if (event?.id !== id) throw new WebhookError('homeward: the event has another id than its delivery');
  return event;
}

function header(headers: Headers, name: string): string {
  let value: string | readonly string[] | null | undefined;
  if (headers instanceof globalThis.Headers) {
    value = headers.get(name);
  } else {
    for (const [k, v] of Object.entries(headers)) if (k.toLowerCase() === name) value = v;
  }
  if (typeof value !== 'string' || value === '') throw new WebhookError(`homeward: the header ${name} is missing`);
  return value;
}

function keyOf(secret: string): Buffer {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (key.length === 0) throw new TypeError('homeward: the webhook secret is empty; it looks like whsec_…');
  return key;
}
