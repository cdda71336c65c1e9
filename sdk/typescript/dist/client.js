import { randomUUID } from 'node:crypto';
import { attempt } from './attempt.js';
import { HomewardError } from './error.js';
/** A server that wants to be asked later than that is the caller's decision. */
const maxServerWaitMs = 60_000;
/** Makes an idempotency key. Store it before the call that it is for. */
export function newKey() {
    return randomUUID();
}
/**
 * Calls Homeward. Each call that moves money takes the caller's own key and keeps it over
 * all its retries, so that a repetition, after a crash, too, charges once.
 */
export class Homeward {
    #bases;
    #apiKey;
    #maxAttempts;
    #timeoutMs;
    #backoffMinMs;
    #backoffMaxMs;
    #fetch;
    #sleep;
    #random;
    /** The region that answered last. */
    #base = 0;
    constructor(c) {
        if (c.baseURLs.length === 0)
            throw new TypeError('homeward: baseURLs is empty; name at least one region');
        if (!c.apiKey)
            throw new TypeError('homeward: apiKey is missing');
        this.#bases = c.baseURLs.map((base) => {
            const u = URL.canParse(base) ? new URL(base) : undefined;
            if (!u || !/^https?:$/.test(u.protocol) || u.search || u.hash)
                throw new TypeError(`homeward: base URL ${JSON.stringify(base)} must look like https://host`);
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
    charge(key, params, o) {
        return this.#move('/v1/charges', key, params, o);
    }
    /** Pays out. */
    transfer(key, params, o) {
        return this.#move('/v1/transfers', key, params, o);
    }
    /** Gives back a charge, or a part of it. */
    refund(key, params, o) {
        return this.#move('/v1/refunds', key, params, o);
    }
    /** Takes the money that a charge holds, or a part of it; the rest is let go. */
    capture(key, charge, params = {}, o) {
        return this.#move(`/v1/charges/${encodeURIComponent(charge)}/capture`, key, params, o);
    }
    /** Ends a charge whose money has not moved. */
    cancel(key, charge, o) {
        return this.#move(`/v1/charges/${encodeURIComponent(charge)}/cancel`, key, {}, o);
    }
    getCharge(id, o) {
        return this.#read('GET', `/v1/charges/${encodeURIComponent(id)}`, undefined, o);
    }
    getTransfer(id, o) {
        return this.#read('GET', `/v1/transfers/${encodeURIComponent(id)}`, undefined, o);
    }
    getRefund(id, o) {
        return this.#read('GET', `/v1/refunds/${encodeURIComponent(id)}`, undefined, o);
    }
    /** Says what became of a key. */
    inspectKey(key, o) {
        return this.#read('GET', `/v1/idempotency-keys/${encodeURIComponent(key)}`, undefined, o);
    }
    /** Mints keys whose home is the region that answers: their first use saves a look-up. */
    async mintKeys(count, o) {
        return (await this.#read('POST', '/v1/idempotency-keys', { count }, o)).object.keys;
    }
    async #move(path, key, params, o) {
        if (!key)
            throw new TypeError('homeward: the idempotency key is missing; make one with newKey() and store it before the call');
        const call = { method: 'POST', path, key, body: JSON.stringify(params), home: undefined };
        // An attempt that had no answer of the API's may have been carried out. After one,
        // only an answer of the claim itself says what became of it.
        let doubt = false;
        const { reply, attempts } = await this.#repeat(call, o, (r) => {
            doubt ||= r.kind === 'nothing' || (r.kind === 'problem' && r.problem.retry === 'same_key' && r.status >= 500);
            return again(r);
        });
        const answer = answered(key, attempts, reply);
        if (reply.kind === 'object') {
            if (reply.status !== 202)
                return { outcome: 'succeeded', object: reply.object, raw: reply.raw, ...answer };
            return { outcome: 'unknown', why: 'waiting', object: reply.object, retry: 'same_key', retryAfterMs: 0, problem: undefined, cause: undefined, ...answer };
        }
        const unknown = (why, retry) => ({
            outcome: 'unknown', why, object: undefined, retry, retryAfterMs: reply.retryAfterMs,
            problem: reply.kind === 'problem' ? reply.problem : undefined, cause: reply.kind === 'nothing' ? reply.cause : undefined, ...answer,
        });
        if (reply.kind === 'nothing')
            return unknown('no_answer', 'same_key');
        const { problem } = reply;
        switch (problem.error) {
            case 'card_declined':
                return declined(reply, answer);
            case 'invalid_request':
                // With a code the provider, or the charge that it is about, said no.
                if (problem.code)
                    return declined(reply, answer);
                break;
            case 'idempotency_key_expired':
                return unknown('expired', problem.retry);
            case 'outcome_unknown':
                return unknown(problem.retry === 'same_key' ? 'in_progress' : 'given_up', problem.retry);
            case 'idempotency_key_fingerprint_mismatch':
                throw refusal(reply, attempts); // the key was never this request's
        }
        if (problem.retry === 'same_key')
            return unknown('in_progress', 'same_key');
        if (doubt)
            return unknown('refused', 'same_key');
        throw refusal(reply, attempts);
    }
    async #read(method, path, params, o) {
        const call = { method, path, key: undefined, body: params && JSON.stringify(params), home: undefined };
        const { reply, attempts } = await this.#repeat(call, o, again);
        if (reply.kind === 'object')
            return { object: reply.object, raw: reply.raw };
        throw refusal(reply, attempts);
    }
    /** Repeats a call until worth says that more of it is no use, up to maxAttempts. */
    async #repeat(call, o, worth) {
        const signal = o?.signal;
        signal?.throwIfAborted(); // nothing was sent
        let base = this.#base;
        for (let n = 1;; n++) {
            const timeout = AbortSignal.timeout(this.#timeoutMs);
            const reply = await attempt(this.#fetch, this.#bases[base % this.#bases.length], this.#apiKey, call, signal ? AbortSignal.any([signal, timeout]) : timeout);
            const more = worth(reply);
            if (reply.kind === 'object')
                this.#base = base % this.#bases.length;
            if (!more || n >= this.#maxAttempts || signal?.aborted || reply.kind === 'object' || reply.retryAfterMs > maxServerWaitMs)
                return { reply, attempts: n };
            if (elsewhere(reply))
                base++;
            try {
                await this.#sleep(reply.retryAfterMs + this.#jitter(n), signal);
            }
            catch {
                return { reply, attempts: n }; // the caller has no more time
            }
        }
    }
    /** Full jitter, so that clients that failed together do not return together. */
    #jitter(n) {
        return this.#random() * Math.min(this.#backoffMaxMs, this.#backoffMinMs * 2 ** (n - 1));
    }
}
/** Whether the same request may be answered otherwise. A soft decline is an answer. */
function again(r) {
    if (r.kind === 'nothing')
        return r.again;
    return r.kind === 'problem' && r.problem.retry === 'same_key' && r.problem.error !== 'card_declined';
}
/** Whether another region may do better. */
function elsewhere(r) {
    return r.kind === 'nothing' || (r.kind === 'problem' && (r.problem.error === 'store_unavailable' || r.problem.error === 'internal'));
}
function answered(key, attempts, r) {
    const of = (name) => (r.kind === 'nothing' ? undefined : (r.headers.get(name) ?? undefined));
    const expires = of('Idempotency-Expires-At');
    return {
        idempotencyKey: key, attempts, replayed: of('Idempotent-Replayed') === 'true',
        homeRegion: of('Homeward-Home-Region'), servedBy: of('Homeward-Served-By'), expiresAt: expires === undefined ? undefined : new Date(expires),
    };
}
function declined(r, answer) {
    const { problem, retryAfterMs } = r;
    return { outcome: 'declined', code: problem.code, detail: problem.detail, retry: problem.retry, retryAfterMs, problem, ...answer };
}
function refusal(r, attempts) {
    if (r.kind === 'problem') {
        return new HomewardError(`homeward: ${r.problem.error}: ${r.problem.detail}`, { status: r.status, problem: r.problem, retry: r.problem.retry, attempts });
    }
    return new HomewardError(`homeward: ${r.detail}`, { status: r.status, problem: undefined, retry: 'same_key', attempts }, { cause: r.cause });
}
function sleep(ms, signal) {
    return new Promise((resolve, reject) => {
        const end = () => {
            clearTimeout(timer);
            reject(signal?.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener('abort', end);
            resolve();
        }, ms);
        if (signal?.aborted)
            end();
        else
            signal?.addEventListener('abort', end, { once: true });
    });
}
