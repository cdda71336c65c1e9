// Against real regions and a real simulator of the provider, whose count of movements is
// the judge. HOMEWARD_SDK says where they are: {"regions": [...], "simulator", "apiKey"}.
// e2e/sdk_test.go starts them; by hand, homeward demo.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Homeward, HomewardError, newKey } from '../dist/index.js';
import { way } from './region.mjs';

const at = process.env.HOMEWARD_SDK && JSON.parse(process.env.HOMEWARD_SDK);
const skip = at ? false : 'HOMEWARD_SDK is not set';
const params = (amount, method = 'pm_card_visa') => ({ amount, currency: 'usd', payment_method: method });

async function simulator(path, o) {
  const res = await fetch(at.simulator + path, o);
  assert.ok(res.ok, `${path}: ${res.status}`);
  return res;
}
const faults = (f) => simulator('/_sim/faults', { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(f) });
const stats = async () => (await simulator('/_sim/stats')).json();

/** Runs a test and asserts how often money moved in it. */
function moves(name, times, run) {
  test(name, { skip }, async (t) => {
    const before = await stats();
    await run(t);
    await faults({});
    const after = await stats();
    assert.deepEqual([after.effects - before.effects, after.duplicate_effects], [times, 0], 'movements of money, and duplicates');
  });
}

async function homeward(t, more = {}) {
  const ways = await Promise.all(at.regions.map((r) => way(t, r)));
  return { ways, client: new Homeward({ baseURLs: ways.map((w) => w.url), apiKey: at.apiKey, backoffMinMs: 5, backoffMaxMs: 100, ...more }) };
}

moves('lost requests and replies', 1, async (t) => {
  const { ways, client } = await homeward(t);
  ways[0].fates = ['losesRequest'];
  ways[1].fates = ['losesReply'];
  ways[2].fates = ['losesReply'];
  const key = newKey();
  const made = await client.charge(key, params(1999));
  assert.deepEqual([made.outcome, made.attempts, made.replayed], ['succeeded', 4, true]);
  assert.equal(new Set(ways.flatMap((w) => w.keys)).size, 1, 'one key');
  const again = await client.charge(key, params(1999));
  assert.equal(again.raw, made.raw, 'the same bytes');
  const { object: now } = await client.getCharge(made.object.id);
  assert.deepEqual([now.status, now.amount_captured, now.amount_refunded], ['succeeded', 1999, 0]);
  assert.equal((await client.inspectKey(key)).object.state, 'COMPLETED');
  await assert.rejects(client.charge(key, params(2000)), (e) => e instanceof HomewardError && e.problem.error === 'idempotency_key_fingerprint_mismatch');
});

moves('a lost region', 2, async (t) => {
  const { ways, client } = await homeward(t);
  const key = newKey();
  const made = await client.charge(key, params(2001));
  ways[0].lost = true;
  const again = await client.charge(key, params(2001));
  assert.deepEqual([again.outcome, again.raw], ['succeeded', made.raw], 'another region replays the same bytes');
  assert.equal((await client.charge(newKey(), params(2002))).attempts, 1, 'the region that answered stays the first choice');
});

moves('503s while the provider fails', 1, async (t) => {
  const { client } = await homeward(t, { maxAttempts: 2 });
  await faults({ error_before: 1 });
  const key = newKey();
  const open = await client.charge(key, params(2003));
  assert.deepEqual([open.outcome, open.why, open.retry], ['unknown', 'in_progress', 'same_key']);
  assert.ok(open.retryAfterMs > 0);
  await faults({});
  const patient = (await homeward(t, { maxAttempts: 50 })).client;
  assert.equal((await patient.charge(key, params(2003))).outcome, 'succeeded');
});

moves('the provider charges and its reply is lost', 1, async (t) => {
  const { client } = await homeward(t, { maxAttempts: 50 });
  await faults({ drop_reply: 1 });
  const key = newKey();
  const before = (await stats()).effects;
  const first = client.charge(key, params(2004));
  while ((await stats()).effects === before) await new Promise((resolve) => setImmediate(resolve));
  const impatient = await (await homeward(t, { maxAttempts: 1 })).client.charge(key, params(2004));
  assert.equal(impatient.outcome, 'unknown');
  await faults({});
  assert.equal((await first).outcome, 'succeeded');
});

moves('rivals with one key', 1, async (t) => {
  const { client } = await homeward(t, { maxAttempts: 50 });
  await faults({ latency_ms: 50 });
  const key = newKey();
  const made = await Promise.all(Array.from({ length: 8 }, () => client.charge(key, params(2005))));
  assert.deepEqual([...new Set(made.map((m) => m.raw))], [made[0].raw]);
});

moves('declines', 0, async (t) => {
  const { client } = await homeward(t);
  const soft = await client.charge(newKey(), params(2006, 'pm_card_insufficient_funds'));
  assert.deepEqual([soft.outcome, soft.code, soft.retry, soft.attempts], ['declined', 'insufficient_funds', 'same_key', 1]);
  assert.ok(soft.retryAfterMs > 0);
  const key = newKey();
  const hard = await client.charge(key, params(2007, 'pm_card_stolen'));
  assert.deepEqual([hard.outcome, hard.code, hard.retry], ['declined', 'stolen_card', 'new_key']);
  assert.equal((await client.charge(key, params(2007, 'pm_card_stolen'))).replayed, true);
  await assert.rejects(client.charge(newKey(), params(-1)), (e) => e.problem.member === 'amount' && e.problem.type.endsWith('invalid_request'));
});

moves('refunds, transfers and minted keys', 3, async (t) => {
  const { ways, client } = await homeward(t);
  const [key] = await client.mintKeys(1);
  const made = await client.charge(key, params(2008));
  for (const w of ways) w.fates = ['losesReply'];
  const back = await client.refund(newKey(), { charge: made.object.id, amount: 500 });
  assert.deepEqual([back.outcome, back.object.amount], ['succeeded', 500]);
  assert.equal((await client.getRefund(back.object.id)).object.status, 'succeeded');
  const { object: now } = await client.getCharge(made.object.id);
  assert.deepEqual([now.amount_refunded, now.refunds.map((r) => r.id)], [500, [back.object.id]]);
  const none = await client.refund(newKey(), { charge: 'ch_00000000000000000000000000' }).catch((e) => e);
  assert.ok(none.outcome === 'declined' || none instanceof HomewardError, 'no such charge');
  assert.equal((await client.transfer(newKey(), { amount: 100, currency: 'usd', destination: 'acct_1' })).outcome, 'succeeded');
});
