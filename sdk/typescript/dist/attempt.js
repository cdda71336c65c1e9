/** Objects and problems are far shorter. */
const maxAnswer = 8 << 20;
/** Makes one request. It throws nothing: a request that fails may have been carried out. */
export async function attempt(doFetch, base, apiKey, call, signal) {
    const headers = {
        Authorization: `Bearer ${apiKey}`,
        Accept: 'application/json, application/problem+json',
    };
    if (call.body !== undefined)
        headers['Content-Type'] = 'application/json';
    if (call.key !== undefined)
        headers['Idempotency-Key'] = quoted(call.key);
    if (call.home !== undefined)
        headers['Homeward-Home-Region'] = call.home;
    let response;
    let raw;
    try {
        response = await doFetch(base + call.path, {
            method: call.method, headers, signal,
            // A redirected POST is another request.
            redirect: 'manual',
            ...(call.body === undefined ? {} : { body: call.body }),
        });
        raw = await response.text();
    }
    catch (cause) {
        return { kind: 'nothing', status: 0, detail: 'no answer', again: true, cause, retryAfterMs: 0 };
    }
    call.home = response.headers.get('Homeward-Home-Region') ?? call.home;
    return read(response, raw);
}
function read(response, raw) {
    const { status, headers } = response;
    const value = raw.length > maxAnswer ? undefined : parsed(raw);
    if (status === 200 || status === 201 || status === 202) {
        if (value === undefined)
            return { kind: 'nothing', status, detail: 'the answer is not the JSON that was expected', again: true, retryAfterMs: 0 };
        return { kind: 'object', status, object: value, raw, headers };
    }
    const after = retryAfterMs(headers);
    if (isProblem(value)) {
        const said = value.retry_after_ms;
        return { kind: 'problem', status, problem: value, headers, retryAfterMs: typeof said === 'number' && said > 0 ? said : after };
    }
    // A balancer or a proxy. With its own trouble another try may do; with ours as it sees
    // it, not.
    const again = status >= 500 || status === 429 || status === 408;
    return { kind: 'nothing', status, detail: `status ${status}, not in the API's words`, again, retryAfterMs: after };
}
function parsed(raw) {
    try {
        const value = JSON.parse(raw);
        return typeof value === 'object' && value !== null ? value : undefined;
    }
    catch {
        return undefined;
    }
}
function isProblem(value) {
    const p = value;
    return typeof p?.error === 'string' && typeof p.retry === 'string';
}
/** The header's delay in seconds; a date would need clocks to agree. */
function retryAfterMs(headers) {
    const value = headers.get('Retry-After');
    return value !== null && /^[0-9]{1,9}$/.test(value) ? Number(value) * 1000 : 0;
}
/** A String of RFC 9651, which every key can be. */
function quoted(key) {
    return `"${key.replace(/["\\]/g, '\\$&')}"`;
}
