// Tests the page in a browser: against a server, whose page is at PAGE_URL, or without that against made-up data. PAGE_OUT gets
// the screenshots and the measurements.
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { audit } from './audit.mjs';
import { dress, launch, live, open, sticking, themes, visit, wait } from './browser.mjs';
import { startFixture } from './fixture/server.mjs';
import { count, ms, percent, rate } from '../../server/live/assets/js/format.js';

const { PAGE_OUT: out = '.weft/page', PAGE_URL: given } = process.env;
mkdirSync(out, { recursive: true });

let browser;
let fixture = null;
let url = given;
const measured = {};

before(async () => {
  browser = await launch();
  if (!given) {
    fixture = await startFixture({ prefix: '/weft/live/' });
    url = fixture.url;
  }
});
after(async () => {
  await browser.close();
  await fixture?.close();
  writeFileSync(path.join(out, 'measured.json'), `${JSON.stringify(measured, null, 2)}\n`);
});

test('it shows what the server does, without an error and without asking another host', async () => {
  const page = await open(browser, url);
  await live(page);
  await visit(page);
  await wait(1500);
  const said = await page.evaluate(() => ({ title: document.getElementById('weave-title').textContent, answers: [...document.querySelectorAll('.answer .short')].map((n) => n.textContent),
    rows: document.querySelectorAll('.row.version').length, models: document.getElementById('models-title').textContent, outside: globalThis.weft.store.present.length }));
  assert.deepEqual(page.faults, []);
  assert.deepEqual(page.foreign, []);
  assert.equal(said.answers.length, 5);
  assert.ok(said.answers.every((a) => a.length > 3), JSON.stringify(said));
  assert.equal(said.rows, Math.min(8, said.outside));
  assert.match(said.models, /model/);
  await page.done();
});

for (const [width, height] of [[1440, 900], [360, 800]]) {
  test(`axe finds nothing serious, and nothing sticks out: ${width}x${height}`, async () => {
    const page = await open(browser, url, { width, height });
    await live(page);
    await visit(page);
    for (const theme of themes) {
      await dress(page, theme);
      await page.screenshot({ path: path.join(out, `${width}x${height}-${theme}.png`) });
      if (width === 1440) await page.screenshot({ path: path.join(out, `whole-${theme}.png`), fullPage: true });
      assert.deepEqual(await audit(page), [], theme);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `the page is ${wide} px wide in a window of ${width} px`);
    assert.deepEqual(await sticking(page), []);
    assert.deepEqual(page.faults, []);
    await page.done();
  });
}

test('a large screen has the weave beside the comparison', async () => {
  const page = await open(browser, url, { width: 3840, height: 2160 });
  await live(page);
  for (const theme of themes) {
    await dress(page, theme);
    await page.screenshot({ path: path.join(out, `3840x2160-${theme}.png`) });
  }
  const [weave, compare] = await page.evaluate(() => ['weave', 'compare'].map((id) => document.getElementById(id).getBoundingClientRect().toJSON()));
  assert.ok(weave.width > 2000 && compare.left > weave.right && compare.top === weave.top, JSON.stringify({ weave, compare }));
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('the bars of a device add up to its busy time', async () => {
  const page = await open(browser, url);
  await live(page);
  if (fixture) fixture.state.frozen = true;
  await wait(2500);
  const pairs = await page.evaluate(() => {
    const { store, weave } = globalThis.weft;
    weave.say(); // bars and numbers of the same message
    return store.devices.map((d) => {
      const rows = [...weave.rows.versionRows].filter(([id]) => store.versions[id].device === d.name);
      return { device: d.name, busy: d.busyShare, bars: rows.reduce((sum, [, r]) => sum + parseFloat(r.bar.style.width) / 100, 0) };
    });
  });
  for (const p of pairs) assert.ok(Math.abs(p.bars - p.busy) <= 0.01, JSON.stringify(p));
  if (fixture) {
    // The fixture's own account, from its batches.
    const { sim } = fixture.state;
    const running = sim.devices[0].lanes.map((l) => l.batch).filter(Boolean);
    const busy = [...sim.batches, ...running].filter((b) => b.lane === 0).reduce((sum, b) => sum + Math.max(0, Math.min(b.end, sim.now) - Math.max(b.start, sim.now - 5000)), 0) / 5000;
    assert.ok(Math.abs(busy - pairs[0].bars) <= 0.01, `${busy} by the fixture, ${pairs[0].bars} on the page`);
    fixture.state.frozen = false;
  }
  await page.done();
});

test('the headline says what the numbers do', async () => {
  const page = await open(browser, url);
  await live(page);
  await wait(3000);
  if (fixture) fixture.state.frozen = true;
  const look = () => page.evaluate(() => ({ shown: [...document.querySelectorAll('#headline dd')].map((n) => n.textContent), h: globalThis.weft.headline(), window: globalThis.weft.store.window }));
  // The fixture's own account, from its requests and queues.
  const account = ({ h, window }) => {
    const { sim } = fixture.state;
    const since = (ms) => sim.requests.filter((r) => r.end > sim.now - ms);
    const times = since(window).filter((r) => r.ends <= 2).map((r) => r.end - r.arrival).sort((a, b) => a - b);
    const at = (part) => times[Math.ceil(part * times.length) - 1];
    const [answers, errors] = [(r) => r.ends <= 2, (r) => [3, 4, 6].includes(r.ends)].map((is) => since(1000 * h.seconds).filter(is).length);
    const running = sim.devices[0].lanes.map((l) => l.batch).filter(Boolean);
    const busy = [...sim.batches, ...running].filter((b) => b.lane === 0).reduce((sum, b) => sum + Math.max(0, Math.min(b.end, sim.now) - Math.max(b.start, sim.now - window)), 0) / window;
    const waiting = sim.versions.filter((v) => !v.background).reduce((n, v) => n + v.queue.length, 0);
    return [rate(answers / h.seconds), ms(at(0.5)), ms(at(0.99)), percent(errors / (answers + errors), 1), count(waiting), percent(busy)];
  };
  let seen = await look();
  assert.equal(seen.shown.length, 6);
  if (!fixture) return page.done();
  // It is written every two seconds, and later where the machine is busy.
  for (let i = 0; i < 20 && !isDeepStrictEqual(seen.shown, account(seen)); i++) {
    await wait(1000);
    seen = await look();
  }
  assert.deepEqual(seen.shown, account(seen));
  fixture.state.frozen = false;
  await page.done();
});

test('keys and the pointer explain blocks and requests', async () => {
  const page = await open(browser, url);
  await live(page);
  await wait(800);
  await page.focus('#weave-stage');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const card = await page.$eval('#weave-card', (n) => (n.hidden ? '' : n.textContent));
  assert.match(card, /batch #\d+/);
  assert.match(card, /measured/);
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowDown');
  assert.match(await page.$eval('#weave-card', (n) => n.textContent), /waited/);
  assert.equal(await page.$eval('#freeze', (n) => n.getAttribute('aria-pressed')), 'true');
  await page.keyboard.press('Space');
  assert.equal(await page.$eval('#freeze', (n) => n.getAttribute('aria-pressed')), 'false');
  const span = await page.evaluate(() => globalThis.weft.weave.view.span);
  await page.keyboard.press('KeyW');
  assert.ok((await page.evaluate(() => globalThis.weft.weave.view.span)) < span);
  await page.keyboard.press('?');
  assert.ok(await page.$eval('#help', (n) => n.open));
  await page.keyboard.press('Escape');
  assert.match(await page.$eval('#losses-body', (n) => n.textContent), / arm-3 #7/);
  await page.keyboard.press('KeyL');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#story[open] .story li, #story[open] #story-body p');
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('the pointer explains, chooses, zooms and pans, and marks its time in other charts', async () => {
  const page = await open(browser, url, { height: 2600 }); // so that the chart of service is in sight
  await live(page);
  await visit(page);
  await wait(1500);
  // The widest block of the first lane, where it is drawn.
  const at = await page.evaluate(() => {
    const { store, weave } = globalThis.weft;
    weave.change((v) => v.freeze(true));
    const b = store.batches;
    const { lane } = weave.rows.deviceRows[0];
    let i = -1;
    for (let p = b.firstFrom(b.end, weave.view.start + 0.2 * weave.view.span); p < b.next; p++) {
      const j = p & b.mask;
      if (b.lane[j] === lane && b.end[j] < weave.view.end && b.start[j] > weave.view.start && (i < 0 || b.end[j] - b.start[j] > b.end[i] - b.start[i])) i = j;
    }
    const box = document.getElementById('weave-over').getBoundingClientRect();
    return { x: box.left + ((b.start[i] + b.end[i]) / 2 - weave.view.start) * weave.window.scale, y: box.top + weave.rows.laneTop[lane] + weave.rows.laneHeight[lane] - 10, number: b.number[i] };
  });
  await page.mouse.move(at.x - 3, at.y);
  await page.mouse.move(at.x, at.y);
  await page.waitForFunction((n) => document.getElementById('weave-card').textContent.includes(`#${n}`), {}, at.number);
  await page.waitForFunction(() => !document.querySelector('#service .time-cursor').hidden);
  await page.mouse.click(at.x, at.y);
  assert.equal(await page.evaluate(() => globalThis.weft.weave.chosen?.kind), 'batch');
  const view = () => page.evaluate(() => ({ span: globalThis.weft.weave.view.span, end: globalThis.weft.weave.view.end }));
  const first = await view();
  await page.mouse.wheel({ deltaY: -200 });
  await page.waitForFunction((s) => globalThis.weft.weave.view.span < s, {}, first.span);
  const zoomed = await view();
  await page.mouse.down();
  await page.mouse.move(at.x + 120, at.y, { steps: 4 });
  await page.mouse.up();
  assert.ok((await view()).end < zoomed.end, 'dragging to the right goes back in time');
  assert.deepEqual(page.faults, []);
  await page.done();
});

test('with reduced motion the picture moves in steps', async () => {
  const page = await open(browser, url, { calm: true });
  await live(page);
  await page.evaluate(() => {
    const { weave } = globalThis.weft;
    const draw = weave.draw.bind(weave);
    weave.count = 0;
    weave.draw = (...a) => (weave.count++, draw(...a));
  });
  await wait(3000);
  const drawn = await page.evaluate(() => globalThis.weft.weave.count);
  assert.ok(drawn <= 6, `${drawn} pictures in 3 s`);
  await page.done();
});

if (!given) await import('./fixture_only.mjs').then((m) => m.define({ measured, browser: () => browser, out }));
