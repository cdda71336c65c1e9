// Regions for tests: HTTP servers with scripted answers, and proxies of a real region that lose
// requests and replies.
import { createServer, request as forward } from 'node:http';

/** Answers the nth request with answers[n], and all later ones with the last answer. */
export async function region(t, ...answers) {
  const seen = [];
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (c) => (body += c));
    req.on('end', () => {
      seen.push({ method: req.method, url: req.url, headers: req.headers, body });
      const answer = answers[Math.min(seen.length, answers.length) - 1];
      if (answer === 'lost') return void req.socket.destroy();
      if (answer === 'silent') return;
      const { status, headers = {}, json, text } = answer;
      res.writeHead(status, { 'Content-Type': text === undefined ? (status < 400 ? 'application/json' : 'application/problem+json') : 'text/html', ...headers });
      res.end(text ?? JSON.stringify(json));
    });
  });
  await listen(t, server);
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
}

/** An address that refuses connections. */
export async function closed() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return { url: `http://127.0.0.1:${port}` };
}

/** A proxy of a real region. fates has what happens to its next requests: 'passes', 'losesRequest' or 'losesReply'. */
export async function way(t, to) {
  const self = { fates: [], keys: [], lost: false };
  const server = createServer((req, res) => {
    const fate = self.lost ? 'losesRequest' : (self.fates.shift() ?? 'passes');
    self.keys.push(req.headers['idempotency-key']);
    if (fate === 'losesRequest') return void req.socket.destroy();
    const onward = forward(new URL(req.url, to), { method: req.method, headers: { ...req.headers, connection: 'close' } }, (answer) => {
      if (fate === 'losesReply') {
        answer.resume();
        return void answer.on('end', () => req.socket.destroy());
      }
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    onward.on('error', () => req.socket.destroy());
    req.pipe(onward);
  });
  await listen(t, server);
  self.url = `http://127.0.0.1:${server.address().port}`;
  return self;
}

async function listen(t, server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
}

export function problem(status, error, retry, more = {}) {
  return { status, json: { type: `/errors/${error}`, title: 't', status, detail: 'd.', error, retry, ...more } };
}

export const charged = {
  status: 201,
  headers: { 'Idempotent-Replayed': 'true', 'Homeward-Home-Region': 'us-east1', 'Homeward-Served-By': 'us-east1', 'Idempotency-Expires-At': '2030-01-01T00:00:00Z' },
  json: { id: 'ch_1', object: 'charge', amount: 1999, currency: 'usd', status: 'succeeded' },
};
