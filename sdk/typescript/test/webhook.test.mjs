import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { verifyWebhook, WebhookError } from '../dist/index.js';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const other = 'whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0';
const body = '{"id":"evt_1","type":"charge.succeeded","created":1,"data":{"id":"ch_1","object":"charge","status":"succeeded","description":"dé"}}';
const now = 1_700_000_000_000;

/** Signs with the library of Standard Webhooks. */
function signed(id = 'evt_1', text = body, at = now, by = secret) {
  return { 'webhook-id': id, 'webhook-timestamp': String(at / 1000), 'webhook-signature': new Webhook(by).sign(id, new Date(at), text) };
}

test('a delivery that Standard Webhooks signed is accepted', () => {
  const h = signed();
  for (const headers of [h, new Headers(h), { 'Webhook-Id': 'evt_1', 'Webhook-Timestamp': h['webhook-timestamp'], 'Webhook-Signature': h['webhook-signature'] }]) {
    assert.equal(verifyWebhook(body, headers, secret, { now }).type, 'charge.succeeded');
  }
  assert.equal(verifyWebhook(Buffer.from(body), h, secret, { now }).data.id, 'ch_1');
  assert.equal(verifyWebhook(body, h, [other, secret], { now }).id, 'evt_1');
  const both = { ...h, 'webhook-signature': signed('evt_1', body, now, other)['webhook-signature'] + ' v2,x ' + h['webhook-signature'] };
  assert.equal(verifyWebhook(body, both, secret, { now }).id, 'evt_1');
});

test('any other delivery is refused', () => {
  const h = signed();
  for (const [text, headers, secrets, says, at = now] of [
    [body + ' ', h, secret, /no signature matches/],
    [body, h, other, /no signature matches/],
    [body, { ...h, 'webhook-id': 'evt_2' }, secret, /no signature matches/],
    [body, { ...h, 'webhook-signature': 'v1,' }, secret, /no signature matches/],
    [body, { ...h, 'webhook-signature': h['webhook-signature'].replace('v1,', 'v1a,') }, secret, /no signature matches/],
    [body, { ...h, 'webhook-timestamp': 'soon' }, secret, /not a Unix time/],
    [body, { ...h, 'webhook-signature': undefined }, secret, /webhook-signature is missing/],
    [body, {}, secret, /webhook-id is missing/],
    [body, h, secret, /too old/, now + 301_000],
    [body, h, secret, /too new/, now - 301_000],
    ['x', signed('evt_1', 'x'), secret, /not JSON/],
    [body, signed('evt_2'), secret, /another id/],
  ]) assert.throws(() => verifyWebhook(text, headers, secrets, { now: at }), (e) => e instanceof WebhookError && says.test(e.message), String(says));
  assert.throws(() => verifyWebhook(body, h, 'whsec_', { now }), /secret is empty/);
});
