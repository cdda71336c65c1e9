import { attempt, listen, quoted, sleep, type Call, type Reply } from './attempt.js';
import { HomewardError, type Problem, type Retry } from './error.js';
import type { Cancellation, CaptureParams, Charge, ChargeList, ChargeNow, ChargeParams, KeyStatus, ListChargesParams, ListRefundsParams, Refund, RefundList, RefundNow, RefundParams, Transfer, TransferNow, TransferParams } from './types.js';

/** What every outcome has. */
export interface Answer {
  /** The key of the call. */
  readonly idempotencyKey: string;
  /** How many requests the call took. */
  readonly attempts: number;
  /** The answer is that of an earlier request. */
  readonly replayed: boolean;
  /** The key's home, and the region that answered. */
  readonly homeRegion: string | undefined;
  readonly servedBy: string | undefined;
  /** Until when retries read this answer. */
  readonly expiresAt: Date | undefined;
}

/** Yes: money moved, or the order to capture or cancel was carried out. */
export interface Succeeded<T> extends Answer {
  readonly outcome: 'succeeded';
  readonly object: T;
  /** The body, the same bytes for every retry. */
  readonly raw: string;
}

/** No: nothing moved under this key, or it was canceled, and what moved is refunded. */
export interface Declined extends Answer {
  readonly outcome: 'declined';
  /** Why: 'insufficient_funds'. The list grows. undefined if the key was canceled. */
  readonly code: string | undefined;
  /** For a person. */
  readonly detail: string;
  /**
   * new_key: final for this key. same_key: a person may try again with the same key, not
   * before retryAfterMs. Do not put it into a loop: banks count attempts. cancelKey closes the key before
   * another card pays: an attempt that was held up on its way would ask the bank again. never: correct the request.
   */
  readonly retry: Retry;
  readonly retryAfterMs: number;
  readonly problem: Problem;
}

/**
 * waiting: the payment waits for its payer, a bank or its capture; object.status says which.
 * no_answer: no region answered any attempt.
 * in_progress: the API has no outcome yet.
 * given_up: the provider never reported an outcome; the answer is final.
 * expired: the API has deleted the key's answer.
 * refused: the API refused a retry for another reason, after an attempt with a lost answer, or one that found the key in use.
 */
export type WhyUnknown = 'waiting' | 'no_answer' | 'in_progress' | 'given_up' | 'expired' | 'refused';

/** Not known: money may have moved. Never treat it as a failure. */
export interface Unknown<T> extends Answer {
  readonly outcome: 'unknown';
  readonly why: WhyUnknown;
  /** The payment that waits. */
  readonly object: T | undefined;
  /** same_key: call again, now or after a restart, with the same key and parameters. */
  readonly retry: Retry;
  readonly retryAfterMs: number;
  readonly problem: Problem | undefined;
  readonly cause: unknown;
}

export type Outcome<T> = Succeeded<T> | Declined | Unknown<T>;

/** The result of a read. */
export interface Found<T> {
  readonly object: T;
  readonly raw: string;
}

export interface Config {
  /** The regions' addresses, the preferred one first: https://eu.example.com. */
  readonly baseURLs: readonly string[];
  readonly apiKey: string;
  /** Requests of one call, the first included. Default 10: about half a minute if each fails at once, longer while the API waits or asks to wait. */
  readonly maxAttempts?: number;
  /** One attempt, in ms. Default 100,000: longer than the server works on a request. */
  readonly timeoutMs?: number;
  /** Bounds of the pause before a retry, in ms: full jitter below a ceiling that doubles. Default 100 and 10,000. */
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
  /** Default: Node's. */
  readonly fetch?: typeof fetch;
  /** For tests. */
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly random?: () => number;
}

export interface CallOptions {
  /** Ends the call. The API may have executed the request: the outcome is unknown. */
  readonly signal?: AbortSignal;
}

/** If the API asks for a longer wait, the caller decides. */
const maxServerWaitMs = 60_000;

/**
 * Calls Homeward. Each call that moves money takes the caller's own key and sends it with all
 * its retries. So a repetition charges once, after a crash, too.
 */
export class Homeward {
  readonly #bases: readonly string[];
  readonly #apiKey: string;
  readonly #maxAttempts: number;
  readonly #timeoutMs: number;
  readonly #backoffMinMs: number;
  readonly #backoffMaxMs: number;
  readonly #fetch: typeof fetch;
  readonly #sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly #random: () => number;
  /** The region that the next call begins at: the one that answered last, or the one after a region that did not. */
  #base = 0;

  constructor(c: Config) {
    if (c.baseURLs.length === 0) throw new TypeError('homeward: baseURLs is empty; name at least one region');
    if (!c.apiKey) throw new TypeError('homeward: apiKey is missing');
    this.#bases = c.baseURLs.map((base) => {
      const u = URL.canParse(base) ? new URL(base) : undefined;
      if (!u || !/^https?:$/.test(u.protocol) || u.search || u.hash) throw new TypeError(`homeward: base URL ${JSON.stringify(base)} must look like https://host`);
      return base.replace(/\/+$/, '');
    });
    this.#apiKey = c.apiKey;
    this.#maxAttempts = c.maxAttempts ?? 10;
    this.#timeoutMs = c.timeoutMs ?? 100_000;
    this.#backoffMinMs = c.backoffMinMs ?? 100;
    this.#backoffMaxMs = c.backoffMaxMs ?? 10_000;
    if (!(this.#maxAttempts >= 1) || !(this.#timeoutMs > 0) || !(this.#backoffMinMs >= 0) || !(this.#backoffMaxMs >= this.#backoffMinMs)) {
      throw new TypeError('homeward: maxAttempts, timeoutMs, backoffMinMs and backoffMaxMs must be above 0, and the last no less than the one before');
    }
    this.#fetch = c.fetch ?? fetch;
    this.#sleep = c.sleep ?? sleep;
    this.#random = c.random ?? Math.random;
  }

  /** Charges a payment method. */
  charge(key: string, params: ChargeParams, o?: CallOptions): Promise<Outcome<Charge>> {
    return this.#move('/v1/charges', key, params, o);
  }

  /** Pays out. */
  transfer(key: string, params: TransferParams, o?: CallOptions): Promise<Outcome<Transfer>> {
    return this.#move('/v1/transfers', key, params, o);
  }

  /** Gives back a charge, or a part of it. */
  refund(key: string, params: RefundParams, o?: CallOptions): Promise<Outcome<Refund>> {
    return this.#move('/v1/refunds', key, params, o);
  }

  /** Takes the money that a charge holds, or a part of it; the rest is released. */
  capture(key: string, charge: string, params: CaptureParams = {}, o?: CallOptions): Promise<Outcome<Charge>> {
    return this.#move(`/v1/charges/${encodeURIComponent(charge)}/capture`, key, params, o);
  }

  /** Ends a charge before its money moves. */
  cancel(key: string, charge: string, o?: CallOptions): Promise<Outcome<Charge>> {
    return this.#move(`/v1/charges/${encodeURIComponent(charge)}/cancel`, key, {}, o);
  }

  /**
   * Gives a key up: the honest end of a wait. Whatever arrives under it later is refused, in every
   * region; what is in flight is called off, or refunded once it is known to have moved money.
   * object.outcome unused, not_made and refunded are the end; after refund_pending and unknown Homeward
   * goes on by itself. Call it again as often as you like. It throws HomewardError where money cannot be
   * called back (problem.code, and problem.detail says what a person has to do), where the key has expired,
   * and without an answer: retry is same_key then.
   */
  async cancelKey(key: string, o?: CallOptions): Promise<Found<Cancellation>> {
    let doubt = false;
    const call: Call = { method: 'POST', path: `/v1/idempotency-keys/${encodeURIComponent(quoted(key))}/cancel`, key: undefined, body: undefined, has: 'outcome', home: undefined };
    const { reply, attempts } = await this.#repeat(call, o, (r) => {
      doubt ||= doubtful(r);
      return again(r);
    });
    if (reply.kind === 'object') return { object: reply.object as Cancellation, raw: reply.raw };
    const ofTheKey = reply.kind === 'problem' && (reply.problem.code !== undefined || reply.problem.error === 'idempotency_key_expired');
    // It may have been done; calling again says what became of it.
    throw refusal(reply, attempts, doubt && !ofTheKey ? 'same_key' : undefined);
  }

  /** Reads a charge as it is now. charge() with the same key repeats what was answered. */
  getCharge(id: string, o?: CallOptions): Promise<Found<ChargeNow>> {
    return this.#read('GET', `/v1/charges/${encodeURIComponent(id)}`, undefined, 'id', o);
  }

  getTransfer(id: string, o?: CallOptions): Promise<Found<TransferNow>> {
    return this.#read('GET', `/v1/transfers/${encodeURIComponent(id)}`, undefined, 'id', o);
  }

  getRefund(id: string, o?: CallOptions): Promise<Found<RefundNow>> {
    return this.#read('GET', `/v1/refunds/${encodeURIComponent(id)}`, undefined, 'id', o);
  }

  /** Lists charges for which money moved, the latest first, as the books have them: without their refunds and most of what was sent. */
  listCharges(params: ListChargesParams = {}, o?: CallOptions): Promise<Found<ChargeList>> {
    return this.#read('GET', `/v1/charges${queryOf(params)}`, undefined, 'data', o);
  }

  /** Lists the refunds of a charge, the latest first. */
  listRefunds(params: ListRefundsParams & { charge: string }, o?: CallOptions): Promise<Found<RefundList>> {
    return this.#read('GET', `/v1/refunds${queryOf(params)}`, undefined, 'data', o);
  }

  /** Reads the state and the history of a key. */
  inspectKey(key: string, o?: CallOptions): Promise<Found<KeyStatus>> {
    return this.#read('GET', `/v1/idempotency-keys/${encodeURIComponent(quoted(key))}`, undefined, 'key', o);
  }

  /** Mints keys with the region that answers as their home: their first use saves a look-up. */
  async mintKeys(count: number, o?: CallOptions): Promise<string[]> {
    return (await this.#read<{ keys: string[] }>('POST', '/v1/idempotency-keys', { count }, 'keys', o)).object.keys;
  }

  async #move<T>(path: string, key: string, params: object, o: CallOptions | undefined): Promise<Outcome<T>> {
    if (!key) throw new TypeError('homeward: the idempotency key is missing; make one with newKey() and store it before the call');
    const call: Call = { method: 'POST', path, key, body: JSON.stringify(params), has: 'id', home: undefined };
    // The API may have executed an attempt that it did not answer, and another call of the key. After one,
    // only an answer of the claim itself has the outcome.
    let doubt = false;
    const { reply, attempts } = await this.#repeat(call, o, (r) => {
      doubt ||= doubtful(r);
      return again(r);
    });
    const answer = answered(key, attempts, reply);
    if (reply.kind === 'object') {
      if (reply.status !== 202) return { outcome: 'succeeded', object: reply.object as T, raw: reply.raw, ...answer };
      return { outcome: 'unknown', why: 'waiting', object: reply.object as T, retry: 'same_key', retryAfterMs: 0, problem: undefined, cause: undefined, ...answer };
    }
    const unknown = (why: WhyUnknown, retry: Retry): Unknown<T> => ({
      outcome: 'unknown', why, object: undefined, retry, retryAfterMs: reply.retryAfterMs,
      problem: reply.kind === 'problem' ? reply.problem : undefined, cause: reply.kind === 'nothing' ? reply.cause : undefined, ...answer,
    });
    if (reply.kind === 'nothing') return unknown('no_answer', 'same_key');
    const { problem } = reply;
    switch (problem.error) {
      case 'card_declined':
      case 'idempotency_key_canceled':
        return declined(reply, answer);
      case 'invalid_request':
        // With a code, the provider or the state of the charge refused.
        if (problem.code) return declined(reply, answer);
        break;
      case 'idempotency_key_expired':
        return unknown('expired', problem.retry);
      case 'outcome_unknown':
        return unknown(problem.retry === 'same_key' ? 'in_progress' : 'given_up', problem.retry);
      case 'idempotency_key_fingerprint_mismatch':
        throw refusal(reply, attempts); // the key belongs to another request
    }
    if (problem.retry === 'same_key') return unknown('in_progress', 'same_key');
    if (doubt) return unknown('refused', 'same_key');
    throw refusal(reply, attempts);
  }

  async #read<T>(method: 'GET' | 'POST', path: string, params: object | undefined, has: Call['has'], o: CallOptions | undefined): Promise<Found<T>> {
    const call: Call = { method, path, key: undefined, body: params && JSON.stringify(params), has, home: undefined };
    const { reply, attempts } = await this.#repeat(call, o, again);
    if (reply.kind === 'object') return { object: reply.object as T, raw: reply.raw };
    throw refusal(reply, attempts);
  }

  /** Repeats a call while worth is true, up to maxAttempts. */
  async #repeat(call: Call, o: CallOptions | undefined, worth: (r: Reply) => boolean): Promise<{ reply: Reply; attempts: number }> {
    const signal = o?.signal;
    signal?.throwIfAborted(); // nothing was sent
    let base = this.#base;
    // The API's latest answer: the result, if the caller ends the next attempt.
    let answer: Reply | undefined;
    let unreached = 0; // regions in a row that refused the connection, or were silent
    let silent = 0; // regions that were left for their silence
    for (let n = 1; ; n++) {
      const at = this.#bases[base % this.#bases.length]!;
      const over = new AbortController();
      const silence = new AbortController();
      if (silent < this.#bases.length - 1) void listen(this.#fetch, at, over.signal, () => silence.abort());
      const reply = await attempt(this.#fetch, at, this.#apiKey, call, AbortSignal.any([AbortSignal.timeout(this.#timeoutMs), silence.signal, ...(signal ? [signal] : [])]));
      over.abort();
      const left = silence.signal.aborted && reply.kind === 'nothing' && reply.status === 0;
      if (left) silent++;
      const more = worth(reply);
      if (reply.kind === 'problem') answer = reply;
      const last = reply.kind === 'nothing' && reply.status === 0 ? (answer ?? reply) : reply;
      // A caller who leaves says nothing about the region; one whose time-out passes does.
      if (elsewhere(reply) && !(signal?.aborted && (signal.reason as Error | undefined)?.name !== 'TimeoutError')) base++;
      this.#base = base % this.#bases.length; // however the call ends, the next one does not begin at a dead region
      if (signal?.aborted) return { reply: last, attempts: n };
      if (!more || n >= this.#maxAttempts || reply.kind === 'object' || reply.retryAfterMs > maxServerWaitMs) return { reply, attempts: n };
      unreached = left || (reply.kind === 'nothing' && reply.unsent) ? unreached + 1 : 0;
      if (unreached % this.#bases.length !== 0) continue; // the next region may listen; after a round of all there is a pause
      try {
        await this.#sleep(reply.retryAfterMs + this.#jitter(n), signal);
      } catch {
        return { reply: last, attempts: n }; // the caller ended the call
      }
    }
  }

  /** Full jitter, so that clients that failed at once do not retry at once. */
  #jitter(n: number): number {
    return this.#random() * Math.min(this.#backoffMaxMs, this.#backoffMinMs * 2 ** (n - 1));
  }
}

/** Writes parameters as the API has them: created[gte]=7. */
function queryOf(params: object): string {
  const query = new URLSearchParams();
  const add = (name: string, value: unknown): void => {
    if (typeof value === 'object' && value !== null) for (const [inner, v] of Object.entries(value)) add(`${name}[${inner}]`, v);
    else if (value !== undefined && value !== null) query.set(name, `${value}`);
  };
  for (const [name, value] of Object.entries(params)) add(name, value);
  return query.size > 0 ? `?${query}` : '';
}

/** Whether a retry of the request may get another answer. A soft decline is an answer. */
function again(r: Reply): boolean {
  if (r.kind === 'nothing') return r.again;
  return r.kind === 'problem' && r.problem.retry === 'same_key' && r.problem.error !== 'card_declined';
}

/** Whether the request, or another one with its key, may have been executed without an answer. */
function doubtful(r: Reply): boolean {
  if (r.kind !== 'problem') return r.kind === 'nothing';
  return r.problem.error === 'idempotency_key_in_use' || (r.problem.retry === 'same_key' && r.status >= 500);
}

/** Whether another region may have an answer. */
function elsewhere(r: Reply): boolean {
  return r.kind === 'nothing' || (r.kind === 'problem' && (r.problem.error === 'store_unavailable' || r.problem.error === 'internal'));
}

function answered(key: string, attempts: number, r: Reply): Answer {
  const of = (name: string): string | undefined => (r.kind === 'nothing' ? undefined : (r.headers.get(name) ?? undefined));
  const expires = of('Idempotency-Expires-At');
  return {
    idempotencyKey: key, attempts, replayed: of('Idempotent-Replayed') === 'true',
    homeRegion: of('Homeward-Home-Region'), servedBy: of('Homeward-Served-By'), expiresAt: expires === undefined ? undefined : new Date(expires),
  };
}

function declined(r: Reply & { kind: 'problem' }, answer: Answer): Declined {
  const { problem, retryAfterMs } = r;
  return { outcome: 'declined', code: problem.code, detail: problem.detail, retry: problem.retry, retryAfterMs, problem, ...answer };
}

function refusal(r: Exclude<Reply, { kind: 'object' }>, attempts: number, retry?: Retry): HomewardError {
  if (r.kind === 'problem') {
    return new HomewardError(`homeward: ${r.problem.error}: ${r.problem.detail}`, { status: r.status, problem: r.problem, retry: retry ?? r.problem.retry, attempts });
  }
  return new HomewardError(`homeward: ${r.detail}`, { status: r.status, problem: undefined, retry: 'same_key', attempts }, { cause: r.cause });
}
