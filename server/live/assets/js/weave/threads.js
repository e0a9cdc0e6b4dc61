// Draws the requests in the lanes of their versions: a hairline while waiting, solid while running, red if late. Where a second
// has few pixels, they are summed up by columns: the height is then the deepest row that waited and ran.
import { end } from '../words.js';

const column = 2; // px
const crowded = 3000; // requests in view from which on columns are drawn

export class Threads {
  constructor() {
    this.cells = 0;
    this.waited = new Uint8Array(0);
    this.ran = new Uint8Array(0);
    this.late = new Uint8Array(0);
    this.lost = new Uint8Array(0);
    this.drawn = 0;
  }

  draw(g, store, paint, view, rows) {
    this.drawn = 0;
    const r = store.requests;
    if (r.firstFrom(r.end, view.to) - r.firstFrom(r.end, view.from) > crowded) this.columns(g, store, paint, view, rows);
    else this.lines(g, store, paint, view, rows);
  }

  lines(g, store, paint, { from, to, scale }, rows) {
    const r = store.requests;
    const stop = to + store.longestRequest;
    for (let p = r.firstFrom(r.end, from); p < r.next; p++) {
      const i = p & r.mask;
      if (r.end[i] > stop) break;
      if (r.arrival[i] >= to || r.version[i] === 0) continue;
      const v = r.version[i] - 1;
      const tall = rows.versionHeight[v] ?? 0;
      if (tall === 0) continue;
      this.drawn++;
      const deep = rows.deepest[v];
      const pitch = Math.max(1.5, Math.min(5, (tall - 4) / deep));
      const y = rows.versionTop[v] + 2 + (r.rank[i] % Math.max(1, Math.floor((tall - 4) / pitch))) * pitch;
      const thick = Math.max(1, pitch - 1);
      const x = (r.arrival[i] - from) * scale;
      const x2 = (r.end[i] - from) * scale;
      const ends = r.ends[i];
      const x1 = r.start[i] > 0 ? (r.start[i] - from) * scale : x2;
      g.fillStyle = ends > end.late ? paint.red : paint.wait[v];
      g.fillRect(x, y + (thick - 1) / 2, Math.max(0.5, x1 - x), 1);
      if (ends > end.late) cross(g, x2, y + thick / 2);
      if (x2 <= x1) continue;
      g.fillStyle = ends === end.late ? paint.red : paint.solid[v];
      g.fillRect(x1, y, Math.max(1, x2 - x1), thick);
    }
  }

  columns(g, store, paint, { from, to, scale, width }, rows) {
    const across = Math.ceil(width / column) + 1;
    const shown = rows.shown.length;
    if (this.cells < across * shown) {
      this.cells = across * shown;
      this.waited = new Uint8Array(this.cells);
      this.ran = new Uint8Array(this.cells);
      this.late = new Uint8Array(this.cells);
      this.lost = new Uint8Array(this.cells);
    } else {
      this.waited.fill(0);
      this.ran.fill(0);
      this.late.fill(0);
      this.lost.fill(0);
    }
    const r = store.requests;
    const { version, arrival, start, end: ended, ends, rank, mask } = r;
    const { waited, ran, late, lost } = this;
    const perColumn = scale / column;
    const stop = to + store.longestRequest;
    for (let p = r.firstFrom(ended, from); p < r.next; p++) {
      const i = p & mask;
      if (ended[i] > stop) break;
      if (arrival[i] >= to || version[i] === 0) continue;
      const row = rows.rowOf[version[i] - 1];
      if (row < 0) continue;
      this.drawn++;
      const base = row * across;
      const depth = rank[i] < 254 ? rank[i] + 1 : 255;
      const first = base + Math.max(0, ((arrival[i] - from) * perColumn) | 0);
      const last = base + Math.min(across - 1, ((ended[i] - from) * perColumn) | 0);
      const begun = start[i] > 0 ? base + Math.max(0, ((start[i] - from) * perColumn) | 0) : last;
      for (let c = first; c <= begun && c <= last; c++) if (waited[c] < depth) waited[c] = depth;
      if (start[i] > 0) for (let c = begun; c <= last; c++) if (ran[c] < depth) ran[c] = depth;
      if (ends[i] === end.late) late[last] = 1;
      else if (ends[i] > end.late) lost[last] = 1;
    }
    for (let row = 0; row < shown; row++) this.bars(g, paint, rows, row, across);
  }

  bars(g, paint, rows, row, across) {
    const v = rows.shown[row];
    const top = rows.versionTop[v] + 2;
    const tall = rows.versionHeight[v] - 4;
    const unit = Math.min(5, tall / rows.deepest[v]);
    const base = row * across;
    g.fillStyle = paint.wait[v];
    run(g, this.waited, base, across, top, unit, tall);
    g.fillStyle = paint.solid[v];
    run(g, this.ran, base, across, top, unit, tall);
    g.fillStyle = paint.red;
    for (let c = 0; c < across; c++) {
      if (this.late[base + c]) g.fillRect(c * column, top, column, Math.min(tall, unit * this.ran[base + c]));
      if (this.lost[base + c]) g.fillRect(c * column, top + tall - 3, column, 3);
    }
  }
}

// run draws neighbours of the same height as one bar.
function run(g, heights, base, across, top, unit, tall) {
  for (let c = 0; c < across; ) {
    const h = heights[base + c];
    let next = c + 1;
    while (next < across && heights[base + next] === h) next++;
    if (h > 0) g.fillRect(c * column, top, (next - c) * column, Math.min(tall, unit * h));
    c = next;
  }
}

function cross(g, x, y) {
  g.fillRect(x - 1, y - 3, 2, 6);
  g.fillRect(x - 3, y - 1, 6, 2);
}
