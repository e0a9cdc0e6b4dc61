// Tests the page with servers that end: PAGE_OUT gets screenshots. One is restarted while the page is open; another one has 5,000
// requests a second, of which a trace is made.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { launch, live, open, wait } from './browser.mjs';
import { counted, shown } from './numbers.mjs';
import { freePort, metrics, root, serve, start } from './programs.mjs';

const out = process.env.PAGE_OUT || path.join(root, '.weft/page');

let browser;
let server;
let ports;
let url;

before(async () => {
  ports = { grpc: await freePort(), http: await freePort() };
  url = `http://127.0.0.1:${ports.http}/live/`;
  [browser, server] = await Promise.all([launch(), serve(ports)]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

// load asks the server at a rate, and returns when that is over.
async function load(rate, seconds, ...more) {
  const bench = start('weft', 'bench', '--target', `127.0.0.1:${ports.grpc}`, '--model', 'cartpole', '--rate', rate, '--duration', `${seconds}s`, '--warmup', '0s', ...more);
  assert.equal(await bench.ended, 0, bench.tail());
  return bench.tail();
}

// same waits until nothing is under way, and compares all numbers of the page with those of the metrics.
async function same(page) {
  let [seen, now] = [await shown(page), await counted(url)];
  for (let i = 0; i < 20 && seen.offered !== now.offered; i++) {
    await wait(250);
    [seen, now] = [await shown(page), await counted(url)];
  }
  seen.busy = Number(seen.busy.toFixed(6));
  now.busy = Number(now.busy.toFixed(6));
  assert.deepEqual(seen, now);
  // The metrics do not count late answers; the page has each request.
  const late = await page.evaluate(() => {
    const { present, requests: r } = globalThis.weft.store;
    let n = 0;
    for (let p = r.first; p < r.next; p++) n += r.ends[p & r.mask] === 2 ? 1 : 0;
    return { counted: present.reduce((sum, v) => sum + v.totals.late, 0), seen: n };
  });
  assert.equal(late.counted, late.seen);
  return { ...seen, late: late.counted };
}

test('an idle server says what to type, and the headline then what the metrics do', async () => {
  const page = await open(browser, url);
  await live(page);
  await page.waitForSelector('#try:not([hidden]) .command:not([hidden])');
  const line = await page.$eval('#try code', (n) => n.textContent);
  console.log(line);
  const typed = spawnSync('bash', ['-c', `bin/${line}`], { cwd: root, encoding: 'utf8' });
  assert.equal(typed.status, 0, typed.stderr);
  await page.waitForFunction(() => document.getElementById('try').hidden);
  await load(200, 2);
  await same(page);
  // Over the whole minute, so that it has all requests that the metrics have.
  const h = await page.evaluate(() => {
    const { store, headline } = globalThis.weft;
    const window = store.window;
    store.window = 60000;
    const all = headline();
    store.window = window;
    return all;
  });
  const now = await metrics(url);
  assert.equal(Math.round(h.answers * h.seconds), now('weft_requests_total', { code: 'OK' }));
  assert.equal(h.errors, 0);
  assert.equal(h.waiting, now('weft_queue_depth'));
  // The page has times from the arrival of a request, the metrics from when it was decoded: how long one waits for that
  // is the machine's affair, and of a hundred one may wait for long.
  const spread = { p50: 2, p99: Infinity };
  for (const [name, part] of [['p50', 0.5], ['p99', 0.99]]) {
    const [low, high] = now.bucket('weft_request_duration_seconds', {}, part).map((s) => 1000 * s);
    const most = spread[name] * high + 5;
    assert.ok(h[name] >= low && h[name] <= most, `${name} is ${h[name]} ms on the page, and from ${low} to ${high} ms in the metrics`);
  }
  assert.deepEqual(page.faults, []);
  await page.done();
  assert.equal(await server.stop(), 0);
  server = await serve(ports); // so that the next test has all that its server counts in sight
});

test('the page goes on by itself after a restart', async () => {
  const page = await open(browser, url);
  await live(page);
  await load(500, 2, '--arrivals', 'gamma', '--cv', 5); // in bursts, so that some are late
  const first = await same(page);
  assert.ok(first.answered > 0);
  const run = await page.evaluate(() => {
    globalThis.loaded = 'once'; // a page that is loaded again does not know
    globalThis.toasts = []; // each is there for some seconds only
    new MutationObserver(() => globalThis.toasts.push(document.getElementById('toast').textContent)).observe(document.getElementById('toast'), { childList: true });
    return globalThis.weft.store.run;
  });
  assert.equal(await server.stop(), 0);
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'lost');
  assert.match(await page.$eval('#notice', (n) => n.textContent), /goes on by itself/);
  await page.screenshot({ path: path.join(out, 'server-away.png') });
  await wait(1500);
  server = await serve(ports);
  await page.waitForFunction((old) => globalThis.weft.store.run !== old && globalThis.toasts.includes('The server was restarted.'), {}, run);
  await live(page);
  await load(200, 2);
  const second = await same(page);
  assert.ok(second.answered > 0); // of the new server alone, as its metrics are
  const now = await page.evaluate(() => {
    const { store, weave } = globalThis.weft;
    return { loaded: globalThis.loaded, notice: document.getElementById('notice').hidden, now: store.now, oldest: store.batches.end[store.batches.first & store.batches.mask], edge: weave.view.end };
  });
  console.log(`before the restart ${JSON.stringify(first)}, after it ${JSON.stringify(second)}`);
  await page.screenshot({ path: path.join(out, 'server-back.png') });
  assert.equal(now.loaded, 'once');
  assert.ok(now.notice && now.oldest <= now.now && Math.abs(now.edge - now.now) < 2500, JSON.stringify(now));
  assert.deepEqual(page.faults.filter((f) => !f.includes('net::ERR_')), []);
  await page.done();
});

// overlapping lists slices that begin before the one before on the same track has ended. Times are of nanoseconds.
function overlapping(slices) {
  const found = [];
  const last = new Map();
  for (const e of slices.toSorted((a, b) => a.ts - b.ts)) {
    const track = `${e.pid} ${e.tid}`;
    const before = last.get(track);
    if (before && before.ts + before.dur > e.ts + 0.0005) found.push(`${JSON.stringify(before)} and ${JSON.stringify(e)}`);
    last.set(track, e);
  }
  return found;
}

test('a trace of ten seconds at 5,000 requests a second', async () => {
  await load(5000, 10.5);
  const began = performance.now();
  const answer = await fetch(new URL('trace.json.gz?seconds=10', url));
  assert.equal(answer.status, 200);
  const packed = Buffer.from(await answer.arrayBuffer());
  const took = performance.now() - began;
  writeFileSync(path.join(out, 'trace.json.gz'), packed);
  const { traceEvents: events } = JSON.parse(gunzipSync(packed));
  const slices = events.filter((e) => e.ph === 'X');
  const begun = events.filter((e) => e.ph === 'b' && e.name === 'request');
  assert.ok(begun.length > 0 && slices.length > 0);
  assert.ok(slices.every((e) => e.dur >= 0 && e.ts >= 0 && e.name && e.args.batch > 0));
  assert.deepEqual(overlapping(slices).slice(0, 3), []);
  // All that begins ends, and not before: by request and part of it.
  const open = new Map();
  for (const e of events.filter((x) => x.ph === 'b' || x.ph === 'e')) {
    const key = `${e.pid} ${e.id} ${e.name}`;
    if (e.ph === 'b') assert.ok(!open.has(key), `${key} begins twice`);
    else assert.ok(open.get(key) <= e.ts, `${key} ends at ${e.ts}, and began at ${open.get(key)}`);
    if (e.ph === 'b') open.set(key, e.ts);
    else open.delete(key);
  }
  assert.equal(open.size, 0);
  const span = (Math.max(...slices.map((e) => e.ts + e.dur)) - Math.min(...slices.map((e) => e.ts))) / 1e6;
  console.log(`a trace of ${span.toFixed(1)} s, ${begun.length} requests in ${slices.length} batches: ${(packed.length / 1e6).toFixed(2)} MB, made and sent in ${took.toFixed(0)} ms`);
  // A machine that is too slow for the load is held to the same size for each request.
  assert.ok((packed.length * Math.max(1, 50000 / begun.length)) <= 10e6, `${packed.length} bytes of ${begun.length} requests`);
  assert.ok(span <= 10.5, `${span} s`);
});
