// Tests the page of the models' calls, /docs, with a server of the example models: PAGE_OUT gets screenshots.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { audit } from './audit.mjs';
import { dress, launch, open, sticking, themes } from './browser.mjs';
import { freePort, root, serve } from './programs.mjs';

const out = process.env.PAGE_OUT || path.join(root, '.weft/page');

let browser;
let server;
let url;

before(async () => {
  const ports = { grpc: await freePort(), http: await freePort() };
  url = `http://127.0.0.1:${ports.http}/docs`;
  [browser, server] = await Promise.all([launch(), serve(ports)]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

for (const [width, height] of [[1280, 900], [360, 800]]) {
  test(`each example model is asked from the page, and axe finds nothing serious: ${width}x${height}`, async () => {
    const page = await open(browser, url, { width, height });
    await page.waitForSelector('.model');
    const models = await page.$$eval('.model', (all) => all.map((n) => n.querySelector('h2').textContent));
    assert.deepEqual(models, ['cartpole', 'hopper', 'positions-frames', 'positions-gru', 'positions-memoryless']);
    for (const model of models) {
      await page.evaluate((name) => document.querySelector(`#model-${name}-body ~ button`).click(), model);
      await page.waitForFunction((name) => /^\d/.test(document.getElementById(`model-${name}-answer`).textContent), {}, model);
      const said = await page.$eval(`#model-${model}-answer`, (n) => n.textContent);
      assert.match(said, /^200 after [\d.]+ ms\n(\{"outputs":\[\[[-\d.e, ]+\]\]\}$|\{.*"outputs":\[\{"name":"action",[^}]*\}\]\}$)/, model);
    }
    await page.$$eval('details', (all) => all.forEach((d) => (d.open = true)));
    for (const theme of themes) {
      await dress(page, theme);
      await page.screenshot({ path: path.join(out, `docs-${width}-${theme}.png`), fullPage: true });
      assert.deepEqual(await audit(page), [], theme);
    }
    assert.deepEqual(await sticking(page), []);
    assert.deepEqual(page.faults, []);
    assert.deepEqual(page.foreign, []);
    await page.done();
  });
}
