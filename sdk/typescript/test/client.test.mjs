import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Homeward } from '../dist/index.js';
import { charged, problem, region } from './region.mjs';

const params = { amount: 1999, currency: 'usd', payment_method: 'pm_card_visa' };

/** A client that records its pauses and does not wait. */
function client(regions, more = {}) {
  const pauses = [];
  const homeward = new Homeward({ baseURLs: regions.map((r) => r.url), apiKey: 'sk', sleep: async (ms) => void pauses.push(ms), random: () => 0.5, ...more });
  return { homeward, pauses };
}

test('wrong arguments', async () => {
  const { homeward } = client([{ url: 'http://127.0.0.1:1' }]);
  await assert.rejects(homeward.charge('', params), /key is missing/);
  await assert.rejects(homeward.charge('k', params, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('full jitter on top of what the API asks for', async (t) => {
  const r = await region(t, 'lost', problem(503, 'store_unavailable', 'same_key', { retry_after_ms: 1500 }), problem(409, 'idempotency_key_in_use', 'same_key', { retry_after_ms: 5000 }), charged);
  const { homeward, pauses } = client([r]);
  await homeward.charge('k', params);
  assert.deepEqual(pauses, [50, 1500 + 100, 5000 + 200]);
});

test('a key is inspected', async (t) => {
  const r = await region(t, { status: 200, json: { key: 'a/b' } });
  assert.equal((await client([r]).homeward.inspectKey('a/b')).object.key, 'a/b');
  assert.equal(r.seen[0].url, '/v1/idempotency-keys/%22a%2Fb%22');
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

test('a region that answers nothing at all is left, a slow one and the last one are not', async (t) => {
  const [silent, slow] = [await region(t, 'silent'), await region(t, 'slow')];
  const { homeward, pauses } = client([silent, slow]);
  const made = await homeward.charge('k', params);
  assert.deepEqual([made.outcome, made.attempts, silent.seen.length, slow.seen.length], ['succeeded', 2, 1, 1]);
  assert.deepEqual(pauses, []);
  const first = client([await region(t, 'slow'), silent]);
  assert.equal((await first.homeward.charge('k', params)).attempts, 1);
});

test('a time-out leaves the region for the next call, and a caller who leaves does not', async (t) => {
  const [silent, healthy] = [await region(t, 'silent'), await region(t, charged)];
  const { homeward } = client([silent, healthy]);
  const leave = new AbortController();
  const left = homeward.charge('k', params, { signal: leave.signal });
  while (silent.seen.length === 0) await new Promise((resolve) => setImmediate(resolve));
  leave.abort();
  assert.equal((await left).why, 'no_answer');
  const times = new AbortController();
  const pending = homeward.charge('k', params, { signal: times.signal });
  while (silent.seen.length === 1) await new Promise((resolve) => setImmediate(resolve));
  times.abort(new DOMException('', 'TimeoutError'));
  const late = await pending;
  assert.deepEqual([late.why, silent.seen.length], ['no_answer', 2]);
  const made = await homeward.charge('k', params);
  assert.deepEqual([made.outcome, made.attempts], ['succeeded', 1]);
});

test('lists', async (t) => {
  const page = { object: 'list', data: [{ id: 'ch_1' }], has_more: true, url: '/v1/charges' };
  const r = await region(t, 'lost', { status: 200, json: page }, { status: 200, json: page }, { status: 200, json: { ...page, data: [{ id: 're_1' }] } }, problem(503, 'home_unavailable', 'same_key'));
  const { homeward } = client([r], { maxAttempts: 2 });
  const { object } = await homeward.listCharges({ order_id: 'o 1', created: { gte: 7, lt: undefined }, starting_after: 'ch_2', limit: 1 });
  assert.equal(object.data[0].id, 'ch_1');
  assert.equal(object.has_more, true);
  await homeward.listCharges();
  assert.equal((await homeward.listRefunds({ charge: 'ch_1' })).object.data[0].id, 're_1');
  await assert.rejects(homeward.listCharges(), { name: 'HomewardError', status: 503 });
  const first = '/v1/charges?order_id=o+1&created%5Bgte%5D=7&starting_after=ch_2&limit=1';
  assert.deepEqual(r.seen.map((s) => s.url).slice(0, 4), [first, first, '/v1/charges', '/v1/refunds?charge=ch_1']);
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
});
