// The vectors of every client, ../vectors.json.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { homeOf, newKey, verifyWebhook, WebhookError } from '../dist/index.js';
import { stamp } from '../dist/key.js';

const { stamps, homeless, webhooks } = JSON.parse(await readFile(new URL('../../vectors.json', import.meta.url), 'utf8'));

test('stamped keys', () => {
  for (const { home, random, key, object } of stamps) {
    assert.equal(stamp(home, Buffer.from(random, 'hex')), key);
    assert.deepEqual([homeOf(key), homeOf(object)], [home, home]);
  }
  for (const { name, text } of homeless) assert.equal(homeOf(text), undefined, name);
  assert.equal(homeOf(newKey(5)), 5);
  assert.equal(homeOf(newKey()), undefined);
  assert.notEqual(newKey(5), newKey(5));
  for (const home of [0, -1, 65536, 1.5, NaN]) assert.throws(() => newKey(home), RangeError);
});

test('webhooks', () => {
  for (const { name, body, headers, secrets, now, tolerance, refused } of webhooks) {
    const verify = (as, h) => verifyWebhook(as, h, secrets, { now: now * 1000, ...(tolerance && { toleranceSeconds: tolerance }) });
    for (const [as, h] of [[body, headers], [Buffer.from(body), new Headers(headers)]]) {
      if (refused) assert.throws(() => verify(as, h), (e) => e instanceof WebhookError && e.message.includes(refused), name);
      else assert.equal(verify(as, h).data.id, 'ch_1', name);
    }
  }
  const { body, headers, secrets: [secret], now } = webhooks[0];
  assert.equal(verifyWebhook(body, headers, secret, { now: now * 1000 }).type, 'charge.succeeded');
  assert.throws(() => verifyWebhook(body, headers, 'whsec_', { now: now * 1000 }), /secret is empty/);
});
