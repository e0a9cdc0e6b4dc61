// Tests that need a server which can be restarted, emptied and crowded.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { audit } from './audit.mjs';
import { live, open, sticking, visit, wait } from './browser.mjs';
import { startFixture } from './fixture/server.mjs';

export function define({ measured, browser, out }) {
  // scene shows the page of a fixture, and closes both.
  const scene = (name, options, play) => test(name, async () => {
    const fixture = await startFixture(options.fixture);
    let page;
    try {
      page = await open(browser(), fixture.url, options.page);
      await play(page, fixture);
    } finally {
      await page?.done();
      await fixture.close();
    }
  });

  scene('20,000 blocks in view', { fixture: { scenario: 'dense' } }, async (page) => {
    await live(page);
    const result = await page.evaluate(() => new Promise((done) => {
      const { weave } = globalThis.weft;
      const times = [];
      const gaps = [];
      let last = performance.now();
      weave.change((v) => (v.span = 46000));
      const turn = () => {
        times.push(weave.draw());
        gaps.push(performance.now() - last);
        last = performance.now();
        if (times.length < 120) return requestAnimationFrame(turn);
        times.sort((a, b) => a - b);
        gaps.sort((a, b) => a - b);
        done({ blocks: weave.blocks.drawn, requests: weave.threads.drawn, median: times[60], p95: times[114], between: gaps[60] });
      };
      requestAnimationFrame(turn);
    }));
    measured.frame = result;
    console.log(`${result.blocks} blocks and ${result.requests} requests in view: ${result.median.toFixed(1)} ms a frame (median), ${result.p95.toFixed(1)} ms (p95); wanted are 8 ms. Frames came every ${result.between.toFixed(1)} ms`);
    assert.ok(result.blocks >= 20000, `${result.blocks} blocks`);
    assert.ok(result.median <= 40, `a frame takes ${result.median} ms`);
    await page.screenshot({ path: path.join(out, 'dense.png') });
    const kept = await page.evaluate(() => {
      const { batches, requests, now } = globalThis.weft.store;
      return { batches: batches.length, requests: requests.length, oldest: now - batches.end[batches.first & batches.mask] };
    });
    assert.ok(kept.oldest <= 61500 && kept.batches <= 262144 && kept.requests <= 262144, JSON.stringify(kept));
  });

  scene('a restart is noticed, and the page goes on', { fixture: { scenario: 'robots' } }, async (page, fixture) => {
    await live(page);
    const run = await page.evaluate(() => globalThis.weft.store.run);
    fixture.restart();
    await page.waitForFunction((old) => globalThis.weft.store.run !== old, {}, run);
    await wait(1200);
    const now = await page.evaluate(() => ({ now: globalThis.weft.store.now, oldest: globalThis.weft.store.batches.end[globalThis.weft.store.batches.first & globalThis.weft.store.batches.mask], edge: globalThis.weft.weave.view.end, said: document.getElementById('toast').textContent, state: document.getElementById('state').dataset.state }));
    assert.equal(now.state, 'live');
    assert.equal(now.said, 'The server was restarted.');
    assert.ok(now.oldest <= now.now && Math.abs(now.edge - now.now) < 2500, JSON.stringify(now));
    assert.deepEqual(page.faults.filter((f) => !f.includes('net::ERR')), []);
  });

  const hideable = () => {
    // Half a minute out of sight passes in a moment.
    const timeout = globalThis.setTimeout;
    globalThis.setTimeout = (f, ms, ...a) => timeout(f, ms === 30000 ? 50 : ms, ...a);
    let hidden = false;
    Object.defineProperty(document, 'hidden', { get: () => hidden });
    globalThis.hide = (value) => {
      hidden = value;
      document.dispatchEvent(new Event('visibilitychange'));
    };
  };
  scene('ten minutes out of sight', { fixture: { scenario: 'robots' }, page: { before: hideable } }, async (page, fixture) => {
    await live(page);
    await page.evaluate(() => globalThis.hide(true));
    await page.waitForFunction(() => document.getElementById('state').dataset.state === 'hidden');
    const before = await page.evaluate(() => ({ drawn: globalThis.weft.weave.drawn.end, now: globalThis.weft.store.now }));
    fixture.leap(600000);
    await wait(700);
    const during = await page.evaluate(() => ({ drawn: globalThis.weft.weave.drawn.end, now: globalThis.weft.store.now }));
    assert.deepEqual(during, before, 'it draws or reads out of sight');
    await page.evaluate(() => globalThis.hide(false));
    await page.waitForFunction((old) => globalThis.weft.store.now > old + 599000, {}, before.now);
    await wait(800);
    const back = await page.evaluate(() => {
      const { store, weave } = globalThis.weft;
      return { now: store.now, oldest: store.batches.end[store.batches.first & store.batches.mask], edge: weave.view.end, drawn: weave.drawn.end, state: document.getElementById('state').dataset.state };
    });
    assert.equal(back.state, 'live');
    assert.ok(back.now - back.oldest < 62000, JSON.stringify(back));
    assert.ok(back.now - back.drawn < 2500 && back.now - back.edge < 2500, JSON.stringify(back));
    assert.deepEqual(page.faults, []);
  });

  scene('an empty server', { fixture: { scenario: 'empty' } }, async (page) => {
    await live(page);
    await visit(page);
    await wait(800);
    assert.match(await page.$eval('#weave-title', (n) => n.textContent), /no version has work/);
    assert.match(await page.$eval('#models-title', (n) => n.textContent), /no model yet/);
    assert.deepEqual(await audit(page), []);
    assert.deepEqual(page.faults, []);
    await page.screenshot({ path: path.join(out, 'empty.png'), fullPage: true });
  });

  scene('a model says how many episodes it keeps the state of', { fixture: { scenario: 'robots' } }, async (page) => {
    await live(page);
    await visit(page);
    await page.waitForFunction(() => /keeps state: 12 episodes of the model, 98\skB/.test(document.getElementById('models-body').innerText), { timeout: 10000 });
    assert.deepEqual(page.faults, []);
  });

  for (const scenario of ['long', 'many', 'flood', 'lost']) {
    scene(`nothing sticks out of a narrow window: ${scenario}`, { fixture: { scenario }, page: { width: 360, height: 800 } }, async (page) => {
      await live(page);
      await visit(page);
      assert.deepEqual(await sticking(page), []);
      assert.equal(await page.$eval('#weave-title', (n) => /^cuda:0 is lost; /.test(n.textContent)), scenario === 'lost');
      assert.deepEqual(page.faults, []);
      await page.screenshot({ path: path.join(out, `narrow-${scenario}.png`), fullPage: true });
    });
  }

  scene('it states nothing that it has not loaded', { fixture: { scenario: 'robots', hold: true } }, async (page, fixture) => {
    const said = () => page.evaluate(() => [...document.querySelectorAll('.answer, .pair section, #cost, #models, #gpu, #history, #try')].map((n) => n.innerText.replaceAll('\n', ' ')));
    const claims = /\b(No|None|Nobody|nothing|not measured|0 models)\b/;
    await live(page);
    await visit(page);
    await wait(1000);
    const [used, wronged, late, ...asked] = await said();
    assert.ok(used && wronged && late); // which the stream tells
    assert.deepEqual(asked.filter((text) => claims.test(text) && !text.startsWith('Fair')), []);
    assert.match(asked[0], /Not loaded yet/);
    fixture.release();
    await page.waitForFunction(() => /grasp v8/.test(document.querySelectorAll('.answer')[3].innerText) && /grasp v9/.test(document.querySelectorAll('.answer')[4].innerText));
  });

  scene('who asks for more than its share is named, and not wronged', { fixture: { scenario: 'flood' } }, async (page) => {
    await live(page);
    await page.waitForFunction(() => /^No: crowd v2 asks for more than its share$/.test(document.querySelectorAll('.answer .short')[1].textContent));
    const box = await page.$$eval('.answer', (nodes) => ({ text: nodes[1].textContent, alarm: nodes[1].classList.contains('alarm') }));
    assert.match(box.text, /crowd v2 asked for \d+\s%\sof cuda:0, and 50\s%\sare due to it/);
    assert.equal(box.alarm, false);
    assert.match(await page.$eval('.row.version', (n) => n.textContent), /asks for more than its 50/);
    assert.deepEqual(page.faults, []);
  });

  scene('an idle server says what to type', { fixture: { scenario: 'idle' }, page: { width: 360, height: 800 } }, async (page) => {
    await live(page);
    await page.waitForSelector('#try:not([hidden]) .command:not([hidden])');
    assert.equal(await page.$eval('#try code', (n) => n.textContent), "weft predict grasp --input observation='[[0, 0, 0, 0]]' --input 'task id'='[0]' --address 127.0.0.1:9100");
    assert.deepEqual(await sticking(page), []);
    await page.click('#try button');
    assert.deepEqual(page.faults, []);
  });

  scene('of several rollouts and shadows one is chosen', { fixture: { scenario: 'robots' } }, async (page) => {
    await live(page);
    await visit(page);
    const text = (id) => page.$eval(`#${id}`, (n) => n.textContent);
    const answer = (i) => page.$$eval('.answer', (nodes, at) => nodes[at].textContent, i);
    await page.waitForFunction(() => document.querySelectorAll('#compare-choice option').length === 2 && document.querySelectorAll('#shadow-choice option').length === 2);
    assert.match(await text('compare-title'), /^grasp v8 against v7/, 'one that runs comes first');
    assert.match(await text('shadow-title'), /^Shadow grasp v9 beside v7/);
    await page.select('#compare-choice', 'walk');
    await page.waitForFunction(() => document.getElementById('compare-title').textContent.startsWith('walk v7 against v6'));
    assert.match(await text('compare-body'), /The rollout ended at [\d:]+: v6 has all traffic again/);
    assert.match(await text('compare-body'), /341 outcomes replaced earlier ones of the same episode id/);
    await page.waitForFunction(() => document.querySelectorAll('.answer')[3].textContent.includes('walk v6: v7 was rolled back'));
    assert.match(await answer(3), /interval/);
    await page.select('#shadow-choice', 'walk v7 beside v6');
    await page.waitForFunction(() => document.getElementById('shadow-title').textContent.startsWith('Shadow walk v7 beside v6: 100'));
    assert.deepEqual(page.faults, []);
    await page.screenshot({ path: path.join(out, 'choices.png'), fullPage: true });
  });

  scene('two hundred versions', { fixture: { scenario: 'many' } }, async (page) => {
    await live(page);
    await visit(page);
    assert.equal(await page.$$eval('.row.version', (n) => n.length), 8);
    assert.match(await page.$eval('.others', (n) => n.textContent), /^and 192 other versions/);
    assert.deepEqual(page.faults, []);
    await page.screenshot({ path: path.join(out, 'many.png') });
  });

  scene('a server that wants a token', { fixture: { scenario: 'robots', status: 401 } }, async (page) => {
    await page.waitForSelector('#token[open]');
    await page.type('#token-input', 'secret');
    await page.keyboard.press('Enter');
    await live(page);
  });

  scene('a server that does not let one observe', { fixture: { scenario: 'robots', status: 403 } }, async (page) => {
    await page.waitForFunction(() => document.getElementById('state').dataset.state === 'forbidden');
    assert.match(await page.$eval('#notice', (n) => n.textContent), /permission OBSERVE/);
  });

  scene('a slow network', { fixture: { scenario: 'robots', delay: 1500 } }, async (page) => {
    await live(page);
    await wait(1000);
    assert.deepEqual(page.faults, []);
  });
}
