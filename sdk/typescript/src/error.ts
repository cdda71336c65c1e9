import type { components } from './api.js';

/** A refusal of the API (RFC 9457). */
export type Problem = components['schemas']['Problem'];
/** What to do next. */
export type Retry = Problem['retry'];
/** The names of errors. The list grows. */
export type ErrorCode = Problem['error'];

/**
 * The API refused the request before anything happened: it is wrong, or not allowed. This call
 * moved no money, and knows of no other that did. A call that may have moved money never throws: see Unknown. Reads and
 * cancelKey throw it, too, if no region answered: status is 0 then.
 */
export class HomewardError extends Error {
  override readonly name = 'HomewardError';
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  /** The API's problem; undefined if the API did not answer. */
  readonly problem: Problem | undefined;
  /** What to do next. */
  readonly retry: Retry;
  /** How many requests were made. */
  readonly attempts: number;

  constructor(message: string, of: { status: number; problem: Problem | undefined; retry: Retry; attempts: number }, options?: ErrorOptions) {
    super(message, options);
    this.status = of.status;
    this.problem = of.problem;
    this.retry = of.retry;
    this.attempts = of.attempts;
  }
}
