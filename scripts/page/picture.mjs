// Takes the pictures of README: the demo's live page while one model floods (node picture.mjs; `make picture` builds what it
// needs). It takes the usual ports, and writes docs/pictures/live-light.png and live-dark.png.
import path from 'node:path';
import { dress, launch, live, open, themes, wait } from './browser.mjs';
import { root, start } from './programs.mjs';

const demo = start('demo', '--weft', 'bin/weft', '-for', '90s');
const browser = await launch();
try {
  const [, url] = await demo.said(/See it: +(\S+)/);
  const page = await open(browser, url, { width: 1280, height: 830 });
  await live(page);
  // The ranker gets many times what it usually does; the robots' models share the device with it.
  const flood = start('weft', 'bench', 'ranker', '--rate', '400', '--deadline', '300ms', '--rows', '8', '--duration', '60s');
  await wait(20000);
  for (const theme of themes) {
    await dress(page, theme);
    await page.screenshot({ path: path.join(root, `docs/pictures/live-${theme}.png`) });
  }
  await flood.stop();
} finally {
  await browser.close();
  await demo.stop();
}
