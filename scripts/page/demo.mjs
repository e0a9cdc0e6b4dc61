// Tests the page with the load of the demo, against the metrics of its server: PAGE_OUT gets screenshots. PAGE_HIDDEN is for how many
// seconds the page is out of sight; 5 if it is not set.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { audit } from './audit.mjs';
import { dress, launch, live, open, themes, visit, wait } from './browser.mjs';
import { counted, shown } from './numbers.mjs';
import { root, start } from './programs.mjs';

const out = process.env.PAGE_OUT || path.join(root, '.weft/page');
const hidden = Number(process.env.PAGE_HIDDEN || 5);

// between holds a number of the page between those that the metrics had before and after it.
const between = (what, value, least, most) => assert.ok(value >= least - 1e-5 && value <= most + 1e-5, `${what}: the page has ${value}, the metrics had ${least} and then ${most}`);
const lost = (n) => n.refused + n.expired + n.cancelled + n.failed;

let browser;
let demo;
let url;

before(async () => {
  demo = start('demo', '--weft', 'bin/weft', '-ports', 'free', '-for', `${hidden + 150}s`, '-press', 'c@1s,f@6s,f@9s');
  [browser, [, url]] = await Promise.all([launch({ throttled: true }), demo.said(/See it: +(\S+)/)]);
});
after(async () => {
  await browser?.close();
  await demo.stop();
});

test('the page shows the numbers of the metrics, at most one refresh late', async () => {
  const page = await open(browser, url, { height: 4000 }); // so that all parts are in sight
  await live(page);
  for (let poll = 0; poll < 8; poll++) {
    const least = await counted(url);
    const seen = await shown(page);
    const most = await counted(url);
    for (const [name, value] of Object.entries(seen)) between(name, value, least[name], most[name]);
    if (poll === 7) console.log(`page    ${JSON.stringify(seen)}\nmetrics ${JSON.stringify(most)}`);
    await wait(1000);
  }
  // What people read is made of these numbers, every second.
  const text = () => document.querySelector('#losses-body .sub').textContent;
  const least = await counted(url);
  await shown(page);
  const before = await page.evaluate(text);
  await page.waitForFunction((old) => document.querySelector('#losses-body .sub').textContent !== old, {}, before);
  const said = await page.evaluate(text);
  const most = await counted(url);
  const [missed, offered] = /and (.+) not answered, of (.+)\./.exec(said).slice(1).map((n) => Number(n.replace(/\s/g, '')));
  between(said, offered, least.offered, most.offered);
  between(said, missed, lost(least), lost(most));
  assert.deepEqual(page.faults, []);
  assert.deepEqual(page.foreign, []);
  await page.done();
});

test('the bars of a device add up to its busy time, and so do its blocks', async () => {
  const page = await open(browser, url);
  await live(page);
  await wait(1500);
  const devices = await page.evaluate(() => {
    const { store, weave } = globalThis.weft;
    weave.say(); // bars and numbers of the same message
    const b = store.batches;
    return store.devices.map((d) => {
      const rows = [...weave.rows.versionRows].filter(([id]) => store.versions[id].device === d.name);
      const from = store.now - store.window;
      let blocks = 0;
      for (let p = b.firstFrom(b.end, from); p < b.next; p++) {
        const i = p & b.mask;
        const part = (b.end[i] - Math.max(from, b.start[i])) / (b.end[i] - b.start[i]);
        if (store.deviceOfLane(b.lane[i]) === d) blocks += part * b.device[i];
      }
      return { name: d.name, busy: d.busyShare, bars: rows.reduce((sum, [, r]) => sum + parseFloat(r.bar.style.width) / 100, 0), blocks: blocks / store.window / d.lanes, unended: store.running.reduce((sum, r) => sum + store.now - r.startMs, 0) / store.window, leftOut: store.leftOut };
    });
  });
  console.log(JSON.stringify(devices));
  assert.ok(devices.some((d) => d.busy > 0));
  for (const d of devices) {
    assert.ok(Math.abs(d.bars - d.busy) <= 0.01, JSON.stringify(d));
    if (d.leftOut === 0) assert.ok(Math.abs(d.blocks - d.busy) <= 0.01 + d.unended, JSON.stringify(d));
  }
  await page.done();
});

test('axe finds nothing serious', async () => {
  const page = await open(browser, url);
  await live(page);
  await visit(page);
  for (const theme of themes) {
    await dress(page, theme);
    await page.screenshot({ path: path.join(out, `demo-${theme}.png`), fullPage: true });
    assert.deepEqual(await audit(page), [], theme);
  }
  assert.deepEqual(page.faults, []);
  await page.done();
});

test(`${hidden} s out of sight`, async () => {
  const page = await open(browser, url);
  await live(page);
  await wait(1000);
  // A window that is minimized: the browser draws nothing there and wakes timers at most once a second.
  const control = await page.createCDPSession();
  const { windowId } = await control.send('Browser.getWindowForTarget');
  const turn = async (windowState) => {
    await control.send('Browser.setWindowBounds', { windowId, bounds: { windowState } });
    await page.waitForFunction((want) => document.hidden === want, { polling: 500 }, windowState === 'minimized');
  };
  const heap = async () => {
    await control.send('HeapProfiler.collectGarbage');
    return (await page.metrics()).JSHeapUsedSize / 1e6;
  };
  const before = await heap();
  await page.evaluate(() => {
    // Messages follow each other without a gap, but for the first of a connection.
    const { store } = globalThis.weft;
    const take = store.take.bind(store);
    globalThis.gaps = [];
    store.take = (a, first) => {
      if (!first && Math.abs(a.fromMs - store.now) > 1e-3) globalThis.gaps.push([store.now, a.fromMs]);
      return take(a, first);
    };
  });
  await turn('minimized');
  const drawn = () => page.evaluate(() => globalThis.weft.weave.drawn.end);
  await wait(500); // a frame that was under way
  const last = await drawn();
  await wait(1000 * hidden);
  assert.equal(await drawn(), last, 'it draws out of sight');
  const state = await page.$eval('#state', (n) => n.dataset.state);
  assert.equal(state, hidden > 32 ? 'hidden' : 'live');
  const away = await heap();
  await turn('normal');
  const least = await counted(url);
  const now = await shown(page);
  const most = await counted(url);
  // The picture is at the present again.
  await page.waitForFunction(() => [globalThis.weft.weave.drawn.end, globalThis.weft.weave.view.end].every((end) => Math.abs(globalThis.weft.store.now - end) < 2500));
  const back = await page.evaluate(() => {
    const { store } = globalThis.weft;
    const b = store.batches;
    const numbers = store.running.map((r) => r.number);
    for (let p = b.first; p < b.next; p++) numbers.push(b.number[p & b.mask]);
    numbers.sort((x, y) => x - y);
    const missing = numbers.slice(1).filter((n, i) => n !== numbers[i] + 1).length;
    return { state: document.getElementById('state').dataset.state, kept: store.now - b.end[b.first & b.mask],
      batches: b.length, requests: store.requests.length, leftOut: store.leftOut, missing, gaps: globalThis.gaps };
  });
  const after = await heap();
  console.log(`out of sight for ${hidden} s: ${JSON.stringify(back)}; heap ${before.toFixed(1)} MB before, ${away.toFixed(1)} out of sight, ${after.toFixed(1)} after`);
  await page.screenshot({ path: path.join(out, 'demo-back.png') });
  assert.equal(back.state, 'live');
  for (const [name, value] of Object.entries(now)) between(name, value, least[name], most[name]);
  assert.deepEqual(back.gaps, []);
  if (back.leftOut === 0) assert.equal(back.missing, 0, JSON.stringify(back));
  assert.ok(back.kept < 62000 && Math.max(away, after) < before + 30, JSON.stringify({ back, before, away, after }));
  assert.deepEqual(page.faults, []);
  await page.done();
});
