// Tests of the files of the page, without a browser.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { colour, hue, names } from '../../server/live/assets/js/colour.js';
import { steps } from '../../server/live/assets/js/format.js';
import { Ring } from '../../server/live/assets/js/ring.js';
import { Store } from '../../server/live/assets/js/store.js';

const folder = fileURLToPath(new URL('../../server/live/assets/', import.meta.url));
const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => path.join(f.parentPath ?? f.path, f.name));

test('all assets are small', () => {
  const size = files.reduce((sum, f) => sum + gzipSync(readFileSync(f), { level: 9 }).length, 0);
  console.log(`${files.length} files, ${(size / 1000).toFixed(1)} kB with gzip`);
  assert.ok(size <= 120 * 1024, `${size} bytes`);
});

test('no text becomes HTML, and nothing is inline or from elsewhere', () => {
  for (const f of files.filter((n) => /\.(js|html|css)$/.test(n) && !n.includes('uplot'))) {
    const text = readFileSync(f, 'utf8');
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, f);
    if (f.endsWith('.html')) assert.doesNotMatch(text, /<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|(?:href|src)="(?:\/|https?:)/, f);
  }
});

test('the colour of a version is fixed by its name', () => {
  assert.deepEqual(['grasp v7', 'grasp v8', 'grasp v9', 'rank v3', 'walk v6', 'pick v7', 'pick v8'].map((l) => names[hue(l)]), ['green', 'sky blue', 'purple', 'blue', 'orange', 'vermillion', 'yellow']);
  assert.equal(colour('grasp v7'), '#009E73');
});

test('a pipeline is told by its steps', () => {
  const all = [{ name: 'see', model: 'encoder', version: '3', repeat: 1 }, { name: 'act', model: 'head', version: '7', repeat: 10, condition: 'see.score is above 1' }];
  assert.equal(steps(all), 'encoder/3 → head/7\u202f×10 where see.score is above 1');
});

test('a ring forgets the oldest, and finds by an ascending column', () => {
  const ring = new Ring(4, { at: Float64Array });
  for (let i = 1; i <= 6; i++) ring.at[ring.push()] = i * 10;
  assert.equal(ring.length, 4);
  assert.equal(ring.firstFrom(ring.at, 45), ring.first + 2);
  ring.dropUntil(ring.at, 60);
  assert.equal(ring.length, 1);
});

test('the store notices what is missing', () => {
  const store = new Store();
  const take = (fromMs, nowMs, more = {}) => store.take({ run: 'a', began: '2026-01-01T00:00:00Z', fromMs, nowMs, ...more }, nowMs === 1000);
  take(0, 1000);
  take(1000, 1250);
  assert.equal(store.sparse, -Infinity);
  take(1500, 1750);
  assert.equal(store.sparse, 1750, 'a message did not come');
  take(1750, 2000, { requestsLeftOut: 3 });
  assert.equal(store.sparse, 2000, 'requests were left out');
  take(0, 300, { run: 'b' });
  assert.equal(store.sparse, -Infinity, 'another run');
});
