// A headless browser whose pages remember what went wrong in them.
import { existsSync } from 'node:fs';
import puppeteer from 'puppeteer-core';

export const browserPath = () => [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => p && existsSync(p));

// launch starts a browser; throttled: with the limits that windows out of sight have for people.
export function launch({ throttled = false } = {}) {
  const unlimited = ['--disable-background-timer-throttling', '--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows'];
  return puppeteer.launch({ executablePath: browserPath(), ignoreDefaultArgs: throttled ? unlimited : [], args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--disable-dev-shm-usage'], protocolTimeout: 120000 });
}

// open shows a page in a context of its own. Its faults are errors of the console, exceptions and breaches of the policy;
// foreign are requests to other hosts.
export async function open(browser, url, { width = 1440, height = 900, calm = false, before } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(60000); // of machines that do much else
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-reduced-motion', value: calm ? 'reduce' : 'no-preference' }]);
  page.faults = [];
  page.foreign = [];
  const { origin } = new URL(url);
  page.on('pageerror', (error) => page.faults.push(error.stack ?? String(error)));
  // A rollout or request that there is not is an answer, which browsers call an error.
  page.on('console', (m) => m.type() === 'error' && !(m.text().includes('404') && m.location().url?.includes('/api/')) && page.faults.push(m.text()));
  page.on('request', (r) => {
    const at = new URL(r.url());
    if (at.protocol.startsWith('http') && at.origin !== origin) page.foreign.push(r.url());
  });
  await page.evaluateOnNewDocument(() => {
    document.addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`));
  });
  if (before) await page.evaluateOnNewDocument(before);
  try {
    await page.goto(url);
  } catch (error) {
    await context.close();
    throw error;
  }
  page.done = () => context.close();
  return page;
}

export const themes = ['light', 'dark'];

// dress shows the page in a theme, as someone who prefers it sees it.
export async function dress(page, theme) {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
  await wait(1000);
}

// live waits until the page shows what the server does.
export async function live(page) {
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'live' && globalThis.weft?.store.now > 0);
}

// sticking lists what sticks out of the window to the right, but for what scrolls by itself.
export const sticking = (page) => page.evaluate(() => [...document.querySelectorAll('body *')].filter((n) => !n.closest('.scroll, .visually-hidden') && n.getBoundingClientRect().width > 0 && n.getBoundingClientRect().right > window.innerWidth + 0.5)
  .map((n) => `${n.tagName} ${n.id || n.getAttribute('class') || n.textContent.slice(0, 60)} ends at ${Math.round(n.getBoundingClientRect().right)} px`));

// sections brings every part of the page into sight, so that each asks for its data.
export async function visit(page) {
  for (const id of ['compare', 'shadow', 'service', 'losses', 'cost', 'history', 'models', 'gpu']) {
    await page.evaluate((name) => document.getElementById(name).scrollIntoView(), id);
    await wait(450);
  }
  await page.evaluate(() => window.scrollTo(0, 0));
  await wait(300);
}

export const wait = (ms) => new Promise((done) => setTimeout(done, ms));
