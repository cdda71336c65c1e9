import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Homeward, HomewardError, newKey } from '../dist/index.js';
import { charged, closed, problem, region } from './region.mjs';

const params = { amount: 1999, currency: 'usd', payment_method: 'pm_card_visa' };

/** A client that records its pauses and does not wait. */
function client(regions, more = {}) {
  const pauses = [];
  const homeward = new Homeward({ baseURLs: regions.map((r) => r.url), apiKey: 'sk', sleep: async (ms) => void pauses.push(ms), random: () => 0.5, ...more });
  return { homeward, pauses };
}

test('one key and the same bytes over all retries', async (t) => {
  const r = await region(t, 'lost', problem(503, 'store_unavailable', 'same_key', { retry_after_ms: 1500 }), problem(409, 'idempotency_key_in_use', 'same_key', { retry_after_ms: 5000 }), charged);
  const { homeward, pauses } = client([r]);
  const key = 'order "7"\\';
  const made = await homeward.charge(key.replace(' ', '-'), params);
  assert.equal(made.outcome, 'succeeded');
  assert.equal(made.object.id, 'ch_1');
  assert.deepEqual([made.attempts, made.replayed, made.homeRegion, made.servedBy], [4, true, 'us-east1', 'us-east1']);
  assert.equal(made.expiresAt.toISOString(), '2030-01-01T00:00:00.000Z');
  assert.equal(made.raw, JSON.stringify(charged.json));
  assert.equal(new Set(r.seen.map((s) => s.headers['idempotency-key'] + s.body)).size, 1);
  assert.equal(r.seen[0].headers['idempotency-key'], '"order-\\"7\\"\\\\"');
  assert.deepEqual(pauses, [50, 1500 + 100, 5000 + 200], 'full jitter on top of the server\'s delay');
});

test('the client sends back the home that an answer names', async (t) => {
  const busy = problem(409, 'idempotency_key_in_use', 'same_key');
  const r = await region(t, { ...busy, headers: { 'Homeward-Home-Region': 'asia-northeast1' } }, charged);
  await client([r]).homeward.charge('k', params);
  assert.deepEqual(r.seen.map((s) => s.headers['homeward-home-region']), [undefined, 'asia-northeast1']);
});

test('the client turns to the next region if one is lost, and stays with it', async (t) => {
  const lost = await region(t, 'lost');
  const well = await region(t, charged);
  const { homeward } = client([lost, well]);
  assert.equal((await homeward.charge('a', params)).attempts, 2);
  assert.equal((await homeward.charge('b', params)).attempts, 1);
  assert.equal(lost.seen[0].headers['idempotency-key'], well.seen[0].headers['idempotency-key']);
});

test('a refused connection costs no pause, until all regions have refused', async (t) => {
  const gone = await closed();
  const well = await region(t, charged);
  const one = client([gone, gone, well]);
  assert.equal((await one.homeward.charge('a', params)).attempts, 3);
  assert.deepEqual(one.pauses, []);
  const none = client([gone, gone], { maxAttempts: 4 });
  assert.equal((await none.homeward.charge('a', params)).why, 'no_answer');
  assert.equal(none.pauses.length, 1);
  const lost = client([await region(t, 'lost'), well]);
  await lost.homeward.charge('a', params);
  assert.equal(lost.pauses.length, 1, 'it may have taken the request with it');
});

test('the client stays with a region that cannot reach the home: no other can', async (t) => {
  const first = await region(t, problem(503, 'home_unavailable', 'same_key'), charged);
  const second = await region(t, charged);
  await client([first, second]).homeward.charge('k', params);
  assert.deepEqual([first.seen.length, second.seen.length], [2, 0]);
});

test('declines are answers, soft ones too', async (t) => {
  for (const [answer, want] of [
    [problem(402, 'card_declined', 'same_key', { code: 'insufficient_funds', retry_after_ms: 1000 }), { code: 'insufficient_funds', retry: 'same_key', retryAfterMs: 1000 }],
    [problem(402, 'card_declined', 'new_key', { code: 'stolen_card' }), { code: 'stolen_card', retry: 'new_key', retryAfterMs: 0 }],
    [problem(400, 'invalid_request', 'never', { code: 'already_captured' }), { code: 'already_captured', retry: 'never', retryAfterMs: 0 }],
  ]) {
    const r = await region(t, answer);
    const made = await client([r]).homeward.charge('k', params);
    assert.equal(made.outcome, 'declined');
    assert.deepEqual({ code: made.code, retry: made.retry, retryAfterMs: made.retryAfterMs }, want);
    assert.equal(r.seen.length, 1);
  }
});

test('unknown is never an error', async (t) => {
  const waiting = { status: 202, json: { ...charged.json, status: 'requires_action' } };
  for (const [answers, why, retry, attempts] of [
    [['lost'], 'no_answer', 'same_key', 3],
    [['silent'], 'no_answer', 'same_key', 3],
    [[{ status: 502, text: 'Bad Gateway' }], 'no_answer', 'same_key', 3],
    [[{ status: 201, text: '<html>' }], 'no_answer', 'same_key', 3],
    [[{ status: 302, headers: { Location: 'http://127.0.0.1:1/' }, text: '' }], 'no_answer', 'same_key', 1],
    [[problem(503, 'outcome_unknown', 'same_key')], 'in_progress', 'same_key', 3],
    [[problem(503, 'outcome_unknown', 'new_key')], 'given_up', 'new_key', 1],
    [[problem(503, 'outcome_unknown', 'never')], 'given_up', 'never', 1],
    [[problem(410, 'idempotency_key_expired', 'new_key')], 'expired', 'new_key', 1],
    [[problem(503, 'brand_new', 'same_key')], 'in_progress', 'same_key', 3],
    [['lost', problem(401, 'unauthorized', 'never')], 'refused', 'same_key', 2],
    [['lost', problem(400, 'invalid_request', 'never')], 'refused', 'same_key', 2],
    [[problem(503, 'store_unavailable', 'same_key', { retry_after_ms: 61_000 })], 'in_progress', 'same_key', 1],
    [[waiting], 'waiting', 'same_key', 1],
  ]) {
    const r = await region(t, ...answers);
    const made = await client([r], { maxAttempts: 3, timeoutMs: 200 }).homeward.charge('k', params);
    assert.deepEqual([made.outcome, made.why, made.retry, made.attempts], ['unknown', why, retry, attempts], JSON.stringify(answers));
    assert.equal(made.idempotencyKey, 'k');
    assert.equal(made.object?.status, why === 'waiting' ? 'requires_action' : undefined);
  }
});

test('a refusal before anything happened is thrown', async (t) => {
  for (const answers of [
    [problem(400, 'invalid_request', 'never', { member: 'amount' })],
    [problem(401, 'unauthorized', 'never')],
    [problem(422, 'idempotency_key_fingerprint_mismatch', 'never')],
    ['lost', problem(422, 'idempotency_key_fingerprint_mismatch', 'never')],
  ]) {
    const r = await region(t, ...answers);
    await assert.rejects(client([r]).homeward.charge('k', params), (e) => e instanceof HomewardError && e.retry === 'never' && e.attempts === answers.length && e.problem.error === answers.at(-1).json.error);
  }
  const { homeward } = client([{ url: 'http://127.0.0.1:1' }]);
  await assert.rejects(homeward.charge('', params), /key is missing/);
  await assert.rejects(homeward.charge('k', params, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('a call that its caller ends is unknown', async (t) => {
  const r = await region(t, 'silent');
  const giveUp = new AbortController();
  const made = client([r]).homeward.charge('k', params, { signal: giveUp.signal });
  while (r.seen.length === 0) await new Promise((resolve) => setImmediate(resolve));
  giveUp.abort();
  assert.deepEqual([(await made).outcome, (await made).why], ['unknown', 'no_answer']);
  // The call keeps the API's earlier answer.
  const open = await region(t, problem(503, 'outcome_unknown', 'same_key'), 'silent');
  const cutOff = new AbortController();
  const call = client([open]).homeward.charge('k', params, { signal: cutOff.signal });
  while (open.seen.length < 2) await new Promise((resolve) => setImmediate(resolve));
  cutOff.abort();
  const ended = await call;
  assert.deepEqual([ended.outcome, ended.why, ended.retry, ended.attempts, ended.problem?.error], ['unknown', 'in_progress', 'same_key', 2, 'outcome_unknown']);
  // The caller ends it in a pause.
  const busy = await region(t, problem(409, 'idempotency_key_in_use', 'same_key', { retry_after_ms: 30_000 }));
  const later = new AbortController();
  const waits = client([busy], { sleep: undefined }).homeward.charge('k', params, { signal: later.signal });
  while (busy.seen.length === 0) await new Promise((resolve) => setImmediate(resolve));
  setImmediate(() => later.abort());
  assert.equal((await waits).why, 'in_progress');
});

test('reads', async (t) => {
  const ok = (json) => ({ status: 200, json });
  const r = await region(t, 'lost', ok({ id: 'ch_1' }), problem(404, 'not_found', 'never'), ok({ key: 'a/b' }), ok({ keys: ['x', 'y'] }));
  const { homeward } = client([r]);
  assert.equal((await homeward.getCharge('ch_1')).object.id, 'ch_1');
  await assert.rejects(homeward.getRefund('re_1'), { name: 'HomewardError', status: 404 });
  assert.equal((await homeward.inspectKey('a/b')).object.key, 'a/b');
  assert.deepEqual(await homeward.mintKeys(2), ['x', 'y']);
  assert.deepEqual(r.seen.map((s) => s.method + ' ' + s.url), ['GET /v1/charges/ch_1', 'GET /v1/charges/ch_1', 'GET /v1/refunds/re_1', 'GET /v1/idempotency-keys/a%2Fb', 'POST /v1/idempotency-keys']);
});

test('paths and bodies of the other calls', async (t) => {
  const r = await region(t, charged);
  const { homeward } = client([r]);
  await homeward.transfer('a', { amount: 1, currency: 'usd', destination: 'acct_1' });
  await homeward.refund('b', { charge: 'ch_1' });
  await homeward.capture('c', 'ch_1');
  await homeward.capture('d', 'ch_1', { amount: 600 });
  await homeward.cancel('e', 'ch_1');
  assert.deepEqual(r.seen.map((s) => s.url + ' ' + s.body), [
    '/v1/transfers {"amount":1,"currency":"usd","destination":"acct_1"}', '/v1/refunds {"charge":"ch_1"}', '/v1/charges/ch_1/capture {}',
    '/v1/charges/ch_1/capture {"amount":600}', '/v1/charges/ch_1/cancel {}',
  ]);
});

test('wrong settings', () => {
  for (const [c, says] of [
    [{ baseURLs: [], apiKey: 'k' }, /baseURLs is empty/],
    [{ baseURLs: ['http://x'], apiKey: '' }, /apiKey is missing/],
    [{ baseURLs: ['x'], apiKey: 'k' }, /must look like https/],
    [{ baseURLs: ['ftp://x'], apiKey: 'k' }, /must look like https/],
    [{ baseURLs: ['http://x'], apiKey: 'k', maxAttempts: 0 }, /must be above 0/],
    [{ baseURLs: ['http://x'], apiKey: 'k', backoffMaxMs: 1 }, /must be above 0/],
  ]) assert.throws(() => new Homeward(c), says);
  assert.match(newKey(), /^[0-9a-f-]{36}$/);
});
