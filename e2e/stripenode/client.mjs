// Makes the calls that it reads on standard input with Stripe's own library, unmodified
// but for the address, and writes what became of each. See e2e/stripe_node_test.go.
import Stripe from 'stripe';
import { text } from 'node:stream/consumers';

const { url, key, together, calls } = JSON.parse(await text(process.stdin));
const { hostname, port } = new URL(url);
const stripe = new Stripe(key, { host: hostname, port, protocol: 'http', telemetry: false });

async function make({ on, method, args }) {
  try {
    const object = await stripe[on][method](...args);
    const { statusCode, requestId, headers } = object.lastResponse;
    return { object, status: statusCode, requestId, replayed: headers['idempotent-replayed'] };
  } catch (e) {
    return {
      error: {
        kind: e.constructor.name, code: e.code, declineCode: e.decline_code, param: e.param, message: e.message,
        again: e.headers?.['stripe-should-retry'],
      },
      status: e.statusCode, requestId: e.requestId,
    };
  }
}

const made = [];
if (together) {
  made.push(...(await Promise.all(calls.map(make))));
} else {
  for (const call of calls) made.push(await make(call));
}
console.log(JSON.stringify(made));
