import type { Problem } from './error.js';
/** One logical call: the same bytes under the same key, however often. */
export interface Call {
    readonly method: 'GET' | 'POST';
    readonly path: string;
    readonly key: string | undefined;
    readonly body: string | undefined;
    /** The key's home as last heard; sent back as a hint. */
    home: string | undefined;
}
/** What one request came to. */
export type Reply = {
    readonly kind: 'object';
    readonly status: number;
    readonly object: unknown;
    readonly raw: string;
    readonly headers: Headers;
} | {
    readonly kind: 'problem';
    readonly status: number;
    readonly problem: Problem;
    readonly headers: Headers;
    readonly retryAfterMs: number;
}
/** No answer, or one that is not the API's: nothing is known. */
 | {
    readonly kind: 'nothing';
    readonly status: number;
    readonly detail: string;
    readonly again: boolean;
    readonly cause?: unknown;
    readonly retryAfterMs: number;
};
/** Makes one request. It throws nothing: a request that fails may have been carried out. */
export declare function attempt(doFetch: typeof fetch, base: string, apiKey: string, call: Call, signal: AbortSignal): Promise<Reply>;
