// The weave: who had the device, and which requests waited for it. This file joins the view, the rows, the layers and what
// people do with them.
import { $, say, show } from '../dom.js';
import { fit } from '../canvas.js';
import { onCursor } from '../cursor.js';
import { drawBackdrop } from './backdrop.js';
import { Blocks } from './blocks.js';
import { batchLines, fillCard, requestLines } from './card.js';
import { beside, inLane, lanesOf } from './hit.js';
import { drawOver } from './over.js';
import { Paint } from './paint.js';
import { startPointer } from './pointer.js';
import { Rows } from './rows.js';
import { Threads } from './threads.js';
import { View } from './view.js';

const calm = matchMedia('(prefers-reduced-motion: reduce)');

export class Weave {
  constructor(store) {
    this.store = store;
    this.view = new View();
    this.rows = new Rows($('weave-rows'));
    this.stage = $('weave-stage');
    this.layers = ['weave-back', 'weave-front', 'weave-over'].map($);
    this.blocks = new Blocks();
    this.threads = new Threads();
    this.paint = new Paint().read();
    this.box = { left: 0, width: 0, height: 0 };
    this.drawn = { end: NaN, span: NaN };
    this.hovered = this.chosen = this.cursor = null;
    this.window = { from: 0, to: 1, scale: 1, width: 1, live: true };
    this.frame = this.frame.bind(this);
    new ResizeObserver(() => this.layout()).observe(this.stage);
    onCursor((time, by) => {
      if (by === 'weave') return;
      this.cursor = time;
      this.dirtyOver = true;
    });
    startPointer(this);
  }

  // heard is called after each message.
  heard(restarted) {
    if (restarted) {
      // Places in the rings begin again; a view that stands still stays, unless the run is another.
      if (this.store.run !== this.run) this.view.reset();
      this.run = this.store.run;
      this.choose(null);
      this.hovered = null;
    }
    this.view.heard(this.store.now, restarted);
    this.paint.learn(this.store.versions);
    if (this.rows.update(this.store, this.shares())) this.layout();
    this.rows.deepen(this.store);
    if (restarted && !this.touched) this.fitSpan();
    this.dirty = true;
    if (!this.ticking && !document.hidden) this.tick();
  }

  // say writes the texts of the rows, at the pace of the other texts, so that they agree.
  say() {
    this.rows.tell(this.store, this.shares());
  }

  // fitSpan shows as much time at first as makes single batches visible.
  fitSpan() {
    const b = this.store.batches;
    const recent = b.next - b.firstFrom(b.end, this.store.now - 10000);
    const wanted = (this.box.width / 9 / Math.max(1, recent)) * 10000;
    this.view.span = [500, 1000, 2000].findLast((s) => s <= Math.max(500, wanted));
    this.onchange?.();
  }

  // shares are the parts of device time by version: the server's while time flows, else of the batches in view.
  shares() {
    const out = new Map();
    if (!this.view.still) {
      for (const v of this.store.present ?? []) out.set(v.id, v.share);
      return out;
    }
    const b = this.store.batches;
    const from = this.view.start;
    const to = this.view.end;
    for (let p = b.firstFrom(b.end, from); p < b.next; p++) {
      const i = p & b.mask;
      if (b.end[i] > to + this.store.longestBatch) break;
      const part = Math.min(b.end[i], to) - Math.max(b.start[i], from);
      if (part <= 0) continue;
      // Of a batch that waited for the processor, only what it used counts.
      const time = (part * b.device[i]) / Math.max(b.device[i], b.end[i] - b.start[i], 1e-9);
      const lanes = this.store.deviceOfLane(b.lane[i])?.lanes || 1;
      out.set(b.version[i], (out.get(b.version[i]) ?? 0) + time / (to - from) / lanes);
    }
    return out;
  }

  tick() {
    this.ticking = true;
    requestAnimationFrame(this.frame);
  }

  frame() {
    if (document.hidden) {
      this.ticking = false;
      return;
    }
    const end = this.view.end;
    const pixel = this.view.span / Math.max(1, this.box.width) / Math.min(2, window.devicePixelRatio || 1);
    const moved = Math.abs(end - this.drawn.end) >= (calm.matches ? Math.max(pixel, 1000) : pixel);
    if (moved || this.view.span !== this.drawn.span || (this.dirty && !calm.matches && this.view.still === 0)) this.draw(end);
    if (this.dirtyOver) this.over();
    this.tick();
  }

  // draw paints the layer that moves; it returns how long that took.
  draw(end = this.view.end) {
    const began = performance.now();
    const { width, height } = this.box;
    if (width < 1) return 0;
    const span = this.view.span;
    this.drawn.end = end;
    this.drawn.span = span;
    this.dirty = false;
    const w = this.window;
    w.from = end - span;
    w.to = end;
    w.scale = width / span;
    w.width = width;
    w.live = !this.view.still;
    const g = this.front;
    g.clearRect(0, 0, width, height);
    this.threads.draw(g, this.store, this.paint, w, this.rows);
    this.blocks.draw(g, this.store, this.paint, w, this.rows);
    this.dirtyOver = true;
    this.axis();
    return performance.now() - began;
  }

  over() {
    this.dirtyOver = false;
    const { width, height } = this.box;
    drawOver(this.top, this.store, this.paint, this.window, this.rows, { chosen: this.chosen, hovered: this.hovered, cursor: this.cursor, width, height });
  }

  // axis writes the times below: relative to the right edge, so that they stand still.
  axis() {
    if (this.axisSpan === this.view.span && this.axisWidth === this.box.width) return;
    this.axisSpan = this.view.span;
    this.axisWidth = this.box.width;
    const { width, height } = this.box;
    drawBackdrop(fit(this.layers[0], width, height), this);
  }

  layout() {
    this.box = this.rows.measure(this.store, this.stage);
    this.rows.deepen(this.store);
    const { left, width, height } = this.box;
    if (width < 1) return;
    for (const layer of this.layers) layer.style.left = `${left}px`;
    this.front = fit(this.layers[1], width, height);
    this.top = fit(this.layers[2], width, height);
    this.axisSpan = NaN;
    this.draw();
    this.dirtyOver = true;
  }

  theme() {
    this.paint.read();
    this.paint.learn(this.store.versions);
    this.layout();
  }

  // change moves the view by a function of it and shows the state.
  change(move) {
    this.touched = true;
    move(this.view);
    this.store.hold = this.view.still !== 0;
    this.axisSpan = NaN;
    this.rows.tell(this.store, this.shares());
    this.draw();
    if (this.chosen && !this.hovered) this.card(this.chosen, null);
    this.onchange?.();
    if (!this.ticking && !document.hidden) this.tick();
  }

  choose(item, byKey) {
    this.chosen = item;
    this.dirtyOver = true;
    this.card(item, null);
    if (item && byKey) {
      const ring = item.kind === 'batch' ? this.store.batches : this.store.requests;
      const i = item.place & ring.mask;
      if (!this.view.still || ring.end[i] < this.view.start || ring.end[i] > this.view.end) {
        this.change((v) => {
          v.freeze(true);
          if (ring.end[i] < v.start || ring.end[i] > v.end) v.still = ring.end[i] + v.span / 2;
        });
      }
      this.card(item, null);
      say($('weave-said'), $('weave-card').textContent);
    }
  }

  // number is the request that is meant by the keys: the chosen one, or the latest late one of the chosen batch.
  number() {
    const r = this.store.requests;
    if (this.chosen?.kind === 'request') return r.number[this.chosen.place & r.mask];
    if (this.chosen?.kind === 'batch') {
      const b = this.store.batches.number[this.chosen.place & this.store.batches.mask];
      for (let p = r.next - 1; p >= r.first; p--) if (r.batch[p & r.mask] === b) return r.number[p & r.mask];
    }
    return this.store.lastLate >= r.first ? r.number[this.store.lastLate & r.mask] : 0;
  }

  card(item, point) {
    const node = $('weave-card');
    show(node, item !== null);
    if (!item) return;
    const lines = item.kind === 'batch' ? batchLines(this.store, item.place) : requestLines(this.store, item.place);
    fillCard(node, lines);
    const ring = item.kind === 'batch' ? this.store.batches : this.store.requests;
    const i = item.place & ring.mask;
    // Beside what it speaks of: a chosen block stays uncovered.
    const x = point ? point.x : (ring.end[i] - this.window.from) * this.window.scale;
    const lane = this.rows.deviceRows[0]?.lane ?? 0;
    const y = point ? point.y : this.rows.laneTop[lane] + this.rows.laneHeight[lane];
    const wide = Math.min(340, this.stage.clientWidth - 8);
    node.style.left = `${Math.max(4, Math.min(this.stage.clientWidth - wide - 4, this.box.left + x + 14))}px`;
    node.style.top = `${y + 16}px`;
  }

  // arrow goes to the next block or request, or to another lane.
  arrow(right, down) {
    const lanes = lanesOf(this.rows);
    if (lanes.length === 0) return;
    if (!this.chosen) {
      const first = lanes.map((l) => inLane(this.store, l, this.view.end - this.view.span / 2)).find(Boolean);
      return first && this.choose(first, true);
    }
    if (right !== 0) return this.choose(beside(this.store, this.chosen, right), true);
    const ring = this.chosen.kind === 'batch' ? this.store.batches : this.store.requests;
    const i = this.chosen.place & ring.mask;
    const key = this.chosen.kind === 'batch' ? ring.lane[i] : ring.version[i];
    const now = lanes.findIndex((l) => l.kind === this.chosen.kind && l.key === key);
    // Lanes in which nothing happened are passed over.
    for (let next = now + down; next >= 0 && next < lanes.length; next += down) {
      const found = inLane(this.store, lanes[next], ring.end[i]);
      if (found) return this.choose(found, true);
    }
  }
}
