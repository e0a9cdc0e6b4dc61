// Draws the batches of the lanes of devices. Blocks of less than two pixels are summed up by columns: a column then shows how
// its time was divided. Nothing is allocated per frame.
import { flag, flush } from '../words.js';

const column = 2; // px
const segments = 8; // versions of one column at most
const head = 13; // px above the blocks for letters
const foot = 4; // px below them for the red foot

// Reasons, by FlushReason, for which a batch was meant to wait.
const patient = [false, false, true, false, true, false, true, false, false];

export class Blocks {
  constructor() {
    this.at = new Int32Array(0); // by lane: the column that is summed up
    this.used = new Int32Array(0);
    this.late = new Uint8Array(0);
    this.who = new Int32Array(0);
    this.time = new Float64Array(0);
    this.edge = new Float64Array(0); // by lane: where the last block ended, in ms
    this.drawn = 0;
  }

  grow(lanes) {
    if (this.at.length >= lanes) return;
    this.at = new Int32Array(lanes);
    this.used = new Int32Array(lanes);
    this.late = new Uint8Array(lanes);
    this.edge = new Float64Array(lanes);
    this.who = new Int32Array(lanes * segments);
    this.time = new Float64Array(lanes * segments);
  }

  // draw paints what ended or runs between from and to; tops and heights of lanes are by their numbers (0: not shown).
  draw(g, store, paint, view, rows) {
    const { from, to, scale, width } = view;
    const b = store.batches;
    const lanes = rows.laneTop.length;
    this.grow(lanes);
    this.at.fill(-1);
    this.used.fill(0);
    this.edge.fill(NaN);
    this.drawn = 0;
    const mask = b.mask;
    const stop = to + store.longestBatch;
    for (let p = b.firstFrom(b.end, from); p < b.next; p++) {
      const i = p & mask;
      if (b.end[i] > stop) break;
      if (b.start[i] >= to) continue;
      const lane = b.lane[i];
      const height = lane < lanes ? rows.laneHeight[lane] : 0;
      if (height === 0) continue;
      const x = (b.start[i] - from) * scale;
      const w = (b.end[i] - b.start[i]) * scale;
      this.drawn++;
      const wait = b.firstArrival[i];
      if (wait < b.start[i]) this.gap(g, paint, lane, Math.max(wait, this.edge[lane]), b.start[i], from, scale, rows, patient[b.reason[i]] && !(b.flags[i] & flag.late));
      this.edge[lane] = b.end[i];
      if (w < column) {
        this.sum(g, paint, rows, lane, b.version[i], x, w, b.flags[i] & flag.late);
        continue;
      }
      this.flush(g, paint, rows, lane);
      this.block(g, store, paint, i, x, w, rows.laneTop[lane], height);
    }
    for (let lane = 0; lane < lanes; lane++) this.flush(g, paint, rows, lane);
    for (const r of store.running) this.open(g, store, paint, r, view, rows, width);
  }

  // gap hatches the time in which the lane was idle though members of its next batch waited: low where that was meant, for
  // the batch to fill.
  gap(g, paint, lane, start, end, from, scale, rows, meant) {
    const x = (start - from) * scale;
    const w = (end - start) * scale;
    if (!(w >= 3)) return;
    const bottom = rows.laneTop[lane] + rows.laneHeight[lane] - foot;
    const top = meant ? bottom - 7 : rows.laneTop[lane] + head;
    g.strokeStyle = paint.muted;
    g.globalAlpha = meant ? 0.4 : 0.7;
    g.lineWidth = 1;
    g.beginPath();
    const tall = bottom - top;
    // Lines at 45 degrees that are cut at the sides of the gap.
    for (let d = 5 - tall; d < w; d += 6) {
      const a = Math.max(d, 0);
      const z = Math.min(d + tall, w);
      if (z <= a) continue;
      g.moveTo(x + a, bottom - (a - d));
      g.lineTo(x + z, bottom - (z - d));
    }
    g.stroke();
    g.globalAlpha = 1;
  }

  sum(g, paint, rows, lane, version, x, w, late) {
    const at = Math.floor(x / column);
    if (at !== this.at[lane]) {
      this.flush(g, paint, rows, lane);
      this.at[lane] = at;
    }
    if (late) this.late[lane] = 1;
    const base = lane * segments;
    const n = this.used[lane];
    for (let s = 0; s < n; s++) {
      if (this.who[base + s] === version) {
        this.time[base + s] += w;
        return;
      }
    }
    if (n === segments) {
      this.time[base + n - 1] += w;
      return;
    }
    this.who[base + n] = version;
    this.time[base + n] = w;
    this.used[lane]++;
  }

  flush(g, paint, rows, lane) {
    const n = this.used[lane];
    if (n === 0) return;
    const base = lane * segments;
    const x = this.at[lane] * column;
    const top = rows.laneTop[lane] + head;
    const tall = rows.laneHeight[lane] - head - foot;
    let y = top + tall;
    for (let s = 0; s < n; s++) {
      const h = Math.min(y - top, (tall * this.time[base + s]) / column);
      g.fillStyle = paint.solid[this.who[base + s]];
      g.fillRect(x, y - h, column, h);
      y -= h;
    }
    if (this.late[lane]) {
      g.fillStyle = paint.red;
      g.fillRect(x, top + tall + 1, column, foot - 1);
    }
    this.used[lane] = 0;
    this.late[lane] = 0;
    this.at[lane] = -1;
  }

  block(g, store, paint, i, x, w, laneTop, laneHeight) {
    const b = store.batches;
    const v = b.version[i];
    const top = laneTop + head;
    const tall = laneHeight - head - foot;
    const inner = w > 3 ? w - 0.6 : w;
    const fill = Math.max(2, tall * Math.min(1, b.rows[i] / Math.max(1, b.size[i])));
    g.fillStyle = paint.pale[v];
    g.fillRect(x, top, inner, tall - fill);
    g.fillStyle = paint.solid[v];
    g.fillRect(x, top + tall - fill, inner, fill);
    if (store.versions[v].stripe > 0 && w > 3) stripes(g, paint, store.versions[v].stripe, x, top + tall - fill, inner, fill);
    const flags = b.flags[i];
    if (flags & (flag.late | flag.failed)) {
      g.fillStyle = paint.red;
      g.fillRect(x, top + tall + 0.5, Math.max(2, inner), foot - 0.5);
    }
    if (flags & (flag.background | flag.proof) && w > 5) dashes(g, paint, x, top, inner, tall);
    if (w < 9) return;
    const letter = flags & flag.proof ? 'P' : flush[b.reason[i]]?.[0];
    g.textAlign = 'center';
    if (letter) {
      g.font = paint.small;
      g.fillStyle = paint.muted;
      g.fillText(letter, x + inner / 2, laneTop + head - 3);
    }
    const digits = b.rows[i] < 10 ? 1 : b.rows[i] < 100 ? 2 : 3;
    // Above a low fill there is room for it in a high lane only.
    if (w < 6 + 7 * digits || (fill < 15 && tall - fill < 16)) return;
    g.font = paint.bold;
    g.fillStyle = fill >= 15 ? paint.inks[v] : paint.text;
    g.fillText(rowsText(b.rows[i]), x + inner / 2, fill >= 15 ? top + tall - 4 : top + tall - fill - 3);
  }

  // open draws a batch that runs: solid to the edge of what is known.
  open(g, store, paint, r, { from, to, scale, live }, rows) {
    if (!live || r.startMs >= to || r.lane >= rows.laneTop.length || rows.laneHeight[r.lane] === 0) return;
    const x = Math.max(0, (r.startMs - from) * scale);
    const w = (to - from) * scale - x;
    const top = rows.laneTop[r.lane] + head;
    const tall = rows.laneHeight[r.lane] - head - foot;
    const fill = Math.max(2, tall * Math.min(1, r.rows / Math.max(1, r.size)));
    g.fillStyle = paint.pale[r.version];
    g.fillRect(x, top, w, tall - fill);
    g.fillStyle = paint.solid[r.version];
    g.fillRect(x, top + tall - fill, w, fill);
  }
}

export const blockBox = { head, foot };

// Numbers as text, made once.
const texts = [];
function rowsText(n) {
  return n < 1024 ? (texts[n] ??= String(n)) : String(n);
}

// stripes tell versions apart whose colours are the same: level, so that they stand still while time flows.
export function stripes(g, paint, kind, x, y, w, h) {
  g.fillStyle = paint.paper;
  g.globalAlpha = 0.7;
  const pitch = kind === 1 ? 6 : 4;
  const bottom = Math.floor(y + h);
  for (let s = bottom - (bottom % pitch); s > y + 1; s -= pitch) g.fillRect(x, s, w, 1.5);
  g.globalAlpha = 1;
}

const dash = [3, 3];
const none = [];
function dashes(g, paint, x, y, w, h) {
  g.setLineDash(dash);
  g.lineWidth = 1.2;
  g.strokeStyle = paint.text;
  g.strokeRect(x + 0.6, y + 0.6, w - 1.2, h - 1.2);
  g.setLineDash(none);
}
