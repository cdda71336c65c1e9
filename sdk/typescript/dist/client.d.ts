import { type Problem, type Retry } from './error.js';
import type { CaptureParams, Charge, ChargeParams, KeyStatus, Refund, RefundParams, Transfer, TransferParams } from './types.js';
/** How an answer came. */
export interface Answer {
    /** The key of the call. */
    readonly idempotencyKey: string;
    /** How many requests the call took. */
    readonly attempts: number;
    /** The answer was remembered from an earlier request. */
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
/** No: nothing moved under this key. */
export interface Declined extends Answer {
    readonly outcome: 'declined';
    /** Why: 'insufficient_funds'. The list grows. */
    readonly code: string | undefined;
    /** For a person. */
    readonly detail: string;
    /**
     * new_key: final for this key. same_key: a person may try again with the same key, not
     * before retryAfterMs. Do not put it into a loop: banks count attempts. never: mend the request.
     */
    readonly retry: Retry;
    readonly retryAfterMs: number;
    readonly problem: Problem;
}
/**
 * waiting: it waits for its payer, a bank or its capture; object says for what.
 * no_answer: nobody could be asked for as long as was tried.
 * in_progress: the API does not know yet.
 * given_up: the provider never said; the answer is final.
 * expired: the key's answer is not kept any more.
 * refused: a later try was refused for another reason, after one whose answer was lost.
 */
export type WhyUnknown = 'waiting' | 'no_answer' | 'in_progress' | 'given_up' | 'expired' | 'refused';
/** Not known: money may have moved. Never treat it as a failure. */
export interface Unknown<T> extends Answer {
    readonly outcome: 'unknown';
    readonly why: WhyUnknown;
    /** What waits. */
    readonly object: T | undefined;
    /** same_key: call again, now or after a restart, with the same key and parameters. */
    readonly retry: Retry;
    readonly retryAfterMs: number;
    readonly problem: Problem | undefined;
    readonly cause: unknown;
}
export type Outcome<T> = Succeeded<T> | Declined | Unknown<T>;
/** What a GET found. */
export interface Found<T> {
    readonly object: T;
    readonly raw: string;
}
export interface Config {
    /** The regions' addresses, the preferred one first: https://eu.example.com. */
    readonly baseURLs: readonly string[];
    readonly apiKey: string;
    /** Requests of one call, the first included. Default 10: about half a minute. */
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
    /** Ends the call. What was sent may have been carried out: the outcome is unknown. */
    readonly signal?: AbortSignal;
}
/** Makes an idempotency key. Store it before the call that it is for. */
export declare function newKey(): string;
/**
 * Calls Homeward. Each call that moves money takes the caller's own key and keeps it over
 * all its retries, so that a repetition, after a crash, too, charges once.
 */
export declare class Homeward {
    #private;
    constructor(c: Config);
    /** Charges a payment method. */
    charge(key: string, params: ChargeParams, o?: CallOptions): Promise<Outcome<Charge>>;
    /** Pays out. */
    transfer(key: string, params: TransferParams, o?: CallOptions): Promise<Outcome<Transfer>>;
    /** Gives back a charge, or a part of it. */
    refund(key: string, params: RefundParams, o?: CallOptions): Promise<Outcome<Refund>>;
    /** Takes the money that a charge holds, or a part of it; the rest is let go. */
    capture(key: string, charge: string, params?: CaptureParams, o?: CallOptions): Promise<Outcome<Charge>>;
    /** Ends a charge whose money has not moved. */
    cancel(key: string, charge: string, o?: CallOptions): Promise<Outcome<Charge>>;
    getCharge(id: string, o?: CallOptions): Promise<Found<Charge>>;
    getTransfer(id: string, o?: CallOptions): Promise<Found<Transfer>>;
    getRefund(id: string, o?: CallOptions): Promise<Found<Refund>>;
    /** Says what became of a key. */
    inspectKey(key: string, o?: CallOptions): Promise<Found<KeyStatus>>;
    /** Mints keys whose home is the region that answers: their first use saves a look-up. */
    mintKeys(count: number, o?: CallOptions): Promise<string[]>;
}
