// The scenarios of every client, ../../scenarios.json, from the harness at HOMEWARD_SDK:
// go run ./sdk/harness npm test --prefix sdk/typescript.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Homeward, HomewardError, homeOf, newKey } from '../dist/index.js';

const harness = process.env.HOMEWARD_SDK;

async function ask(at, result) {
  const res = await fetch(harness + at, at === '/' ? {} : { method: 'POST', body: result === undefined ? '' : JSON.stringify(result) });
  return res.json();
}

const calls = {
  charge: (h, a) => h.charge(a.key, a.params),
  transfer: (h, a) => h.transfer(a.key, a.params),
  refund: (h, a) => h.refund(a.key, a.params),
  capture: (h, a) => h.capture(a.key, a.charge, a.amount === undefined ? undefined : { amount: a.amount }),
  cancel: (h, a) => h.cancel(a.key, a.charge),
  cancel_key: (h, a) => h.cancelKey(a.key),
  get_charge: (h, a) => h.getCharge(a.id),
  get_transfer: (h, a) => h.getTransfer(a.id),
  get_refund: (h, a) => h.getRefund(a.id),
  list_charges: (h, { order_id, created_from, created_until, after, before, limit }) => {
    const created = { ...(created_from && { gte: created_from }), ...(created_until && { lt: created_until }) };
    return h.listCharges({ order_id, created, starting_after: after, ending_before: before, limit });
  },
  list_refunds: (h, { charge, after, before, limit }) => h.listRefunds({ charge, starting_after: after, ending_before: before, limit }),
  mint_keys: (h, a) => h.mintKeys(a.count),
  new_key: async (_, a) => ({ key: newKey(a.home) }),
  home_of: async (_, a) => ({ home: homeOf(a.text) ?? null }),
};

/** What came of a call, as the harness reads it. */
function reported(made, pauses) {
  if (made instanceof HomewardError) {
    const { error, code, member } = made.problem ?? {};
    return { outcome: 'refused', status: made.status, retry: made.retry, attempts: made.attempts, error, code, member, pauses };
  }
  if (made instanceof Error) throw made;
  if (Array.isArray(made)) return { keys: made, pauses };
  if (made.outcome === undefined) return { ...(made.object && { outcome: 'found' }), ...made, pauses };
  const { outcome, why, code, retry, retryAfterMs, attempts, replayed, homeRegion, servedBy, object, raw } = made;
  return { outcome, why, code, retry, retry_after_ms: retryAfterMs, attempts, replayed, home_region: homeRegion, served_by: servedBy, expires_at: made.expiresAt && made.expiresAt / 1000, object, raw, pauses };
}

for (const { name, at } of harness ? await ask('/') : []) {
  test(name, async () => {
    let step = await ask(at);
    let client;
    let pauses;
    while (step.call) {
      if (step.client) {
        const { base_urls, api_key, max_attempts, timeout_ms, backoff_min_ms, backoff_max_ms, records_pauses } = step.client;
        client = new Homeward({
          baseURLs: base_urls, apiKey: api_key, maxAttempts: max_attempts, timeoutMs: timeout_ms, backoffMinMs: backoff_min_ms, backoffMaxMs: backoff_max_ms,
          ...(records_pauses && { sleep: async (ms) => void pauses.push(ms) }),
        });
      }
      pauses = [];
      const made = await Promise.all(Array.from({ length: step.times }, () => calls[step.call](client, step.args).catch((e) => e)));
      const results = made.map((m) => reported(m, pauses));
      step = await ask(at, results.length > 1 ? results : results[0]);
    }
    assert.equal(step.wrong, undefined);
  });
}

test('the harness is at HOMEWARD_SDK', { skip: harness ? false : 'HOMEWARD_SDK is not set' }, () => {});
