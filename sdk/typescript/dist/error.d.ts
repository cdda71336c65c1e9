import type { components } from './api.js';
/** A refusal, as the API has it (RFC 9457). */
export type Problem = components['schemas']['Problem'];
/** What to do next. */
export type Retry = Problem['retry'];
/** The names of errors. The list grows. */
export type ErrorCode = Problem['error'];
/**
 * The request was refused before anything happened: it is wrong, or not allowed. Nothing
 * moved under its key. A payment that may have been made is never thrown: see Unknown.
 */
export declare class HomewardError extends Error {
    readonly name = "HomewardError";
    /** The HTTP status; 0 where no answer came. */
    readonly status: number;
    /** What the API said; undefined where it was not the API that answered. */
    readonly problem: Problem | undefined;
    /** What is left to do. */
    readonly retry: Retry;
    /** How many requests were made. */
    readonly attempts: number;
    constructor(message: string, of: {
        status: number;
        problem: Problem | undefined;
        retry: Retry;
        attempts: number;
    }, options?: ErrorOptions);
}
