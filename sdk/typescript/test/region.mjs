// A region for tests: an HTTP server with scripted answers.
import { createServer } from 'node:http';

/** Answers the nth request with answers[n], and all later ones with the last answer: 'slow' after 0.9 s, 'silent' never, GET /livez neither. */
export async function region(t, ...answers) {
  const seen = [];
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (c) => (body += c));
    req.on('end', () => {
      if (req.url === '/livez') {
        // Asked beside a request that has no answer.
        if (answers[Math.min(seen.length, answers.length) - 1] !== 'silent') res.end();
        return;
      }
      seen.push({ method: req.method, url: req.url, headers: req.headers, body });
      const answer = answers[Math.min(seen.length, answers.length) - 1];
      if (answer === 'lost') return void req.socket.destroy();
      if (answer === 'silent') return;
      if (answer === 'slow') return void setTimeout(() => res.end(JSON.stringify(charged.json)), 900);
      const { status, headers = {}, json, text } = answer;
      res.writeHead(status, { 'Content-Type': text === undefined ? (status < 400 ? 'application/json' : 'application/problem+json') : 'text/html', ...headers });
      res.end(text ?? JSON.stringify(json));
    });
  });
  await listen(t, server);
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
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
