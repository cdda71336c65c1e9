import type { Problem } from './error.js';

/** One logical call: the same bytes under the same key, however often. */
export interface Call {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly key: string | undefined;
  readonly body: string | undefined;
  /** The member that tells an answer of the API from a proxy's JSON. */
  readonly has: 'id' | 'outcome' | 'data' | 'key' | 'keys';
  /** The key's home in the latest answer; sent back as a hint. */
  home: string | undefined;
}

/** The result of one request. */
export type Reply =
  | { readonly kind: 'object'; readonly status: number; readonly object: unknown; readonly raw: string; readonly headers: Headers }
  | { readonly kind: 'problem'; readonly status: number; readonly problem: Problem; readonly headers: Headers; readonly retryAfterMs: number }
  /** No answer, or one that is not the API's: the outcome is unknown. */
  | { readonly kind: 'nothing'; readonly status: number; readonly detail: string; readonly again: boolean; readonly unsent?: boolean; readonly cause?: unknown; readonly retryAfterMs: number };

/** Objects and problems are far shorter. */
const maxAnswer = 8 << 20;

/** Makes one request. It throws nothing: the API may have executed a request that failed. */
export async function attempt(doFetch: typeof fetch, base: string, apiKey: string, call: Call, signal: AbortSignal): Promise<Reply> {
  const headers: Record<string, string> = {
    Authorization: `Bearer ${apiKey}`,
    Accept: 'application/json, application/problem+json',
  };
  if (call.body !== undefined) headers['Content-Type'] = 'application/json';
  if (call.key !== undefined) headers['Idempotency-Key'] = quoted(call.key);
  if (call.home !== undefined) headers['Homeward-Home-Region'] = call.home;
  let response: Response;
  let raw: string;
  try {
    response = await doFetch(base + call.path, {
      method: call.method, headers, signal,
      // A redirected POST is another request.
      redirect: 'manual',
      ...(call.body === undefined ? {} : { body: call.body }),
    });
    raw = await response.text();
  } catch (cause) {
    return { kind: 'nothing', status: 0, detail: 'no answer', again: true, unsent: isUnsent(cause), cause, retryAfterMs: 0 };
  }
  call.home = response.headers.get('Homeward-Home-Region') ?? call.home;
  return read(response, raw, call.has);
}

/**
 * While an attempt has no answer for the first of these, and each third after that, its region is asked
 * whether it is there, and is left for the next one after the second. The sum of the first two, and a
 * payment elsewhere, is less than a second.
 */
const listenAfterMs = 200;
const listenTimeMs = 500;
const listenEveryMs = 1000;

/**
 * Asks the region whether it is there until over, and calls silent if that has no answer in time. The
 * answer to a payment may take as long as the provider does, so it tells nothing.
 */
export async function listen(doFetch: typeof fetch, base: string, over: AbortSignal, silent: () => void): Promise<void> {
  for (let wait = listenAfterMs; ; wait = listenEveryMs) {
    try {
      await sleep(wait, over);
    } catch {
      return;
    }
    const late = AbortSignal.timeout(listenTimeMs);
    try {
      await (await doFetch(`${base}/livez`, { signal: AbortSignal.any([over, late]), redirect: 'manual' })).text(); // whoever answers, and whatever
    } catch {
      if (over.aborted) return;
      // A refusal is quick: a node that drains takes no connection, and finishes what it has begun.
      if (late.aborted) return silent();
    }
  }
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', end);
      resolve();
    }, ms);
    if (signal?.aborted) end();
    else signal?.addEventListener('abort', end, { once: true });
  });
}

/** Without a connection, as Node's fetch says it. */
const noConnection = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']);

function isUnsent(cause: unknown): boolean {
  const code = ((cause as Error | undefined)?.cause as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && noConnection.has(code);
}

function read(response: Response, raw: string, has: string): Reply {
  const { status, headers } = response;
  const value = raw.length > maxAnswer ? undefined : parsed(raw);
  if (status === 200 || status === 201 || status === 202) {
    if (value === undefined || !(has in value)) return { kind: 'nothing', status, detail: 'the answer is not the expected JSON', again: true, retryAfterMs: 0 };
    return { kind: 'object', status, object: value, raw, headers };
  }
  const after = retryAfterMs(headers);
  if (isProblem(value)) {
    const ms = value.retry_after_ms;
    return { kind: 'problem', status, problem: value, headers, retryAfterMs: typeof ms === 'number' && ms > 0 ? ms : after };
  }
  // A balancer or a proxy answered. A retry may help with a fault of its own; no retry helps
  // with a request that it refuses.
  const again = status >= 500 || status === 429 || status === 408;
  return { kind: 'nothing', status, detail: `status ${status}, and the answer is not the API's`, again, retryAfterMs: after };
}

function parsed(raw: string): object | undefined {
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isProblem(value: unknown): value is Problem {
  const p = value as Partial<Problem> | undefined;
  return typeof p?.error === 'string' && typeof p.retry === 'string';
}

/** The header's delay in seconds; a date would need clocks to agree. */
function retryAfterMs(headers: Headers): number {
  const value = headers.get('Retry-After');
  return value !== null && /^[0-9]{1,9}$/.test(value) ? Number(value) * 1000 : 0;
}

/** A String of RFC 9651, which every key can be. */
export function quoted(key: string): string {
  return `"${key.replace(/["\\]/g, '\\$&')}"`;
}
