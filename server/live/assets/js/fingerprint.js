// The fingerprint of a shadow: rows are elements of the output, columns slices of time. Paler blue: like the live version
// against itself. Orange with a dot: beyond the tolerance. Red with a cross: beyond twice that.
import { fit } from './canvas.js';
import { onCursor } from './cursor.js';
import { $, el, say } from './dom.js';
import { clock } from './format.js';
import { elementName, times } from './shadow.js';

const steps = [['up to the noise', 0], ['2×', 1], ['4×', 2], ['8×', 3], ['beyond the tolerance', 4], ['beyond 2×', 5]];

export class Fingerprint {
  constructor(store) {
    this.canvas = el('canvas', { tabindex: '0', role: 'img' });
    this.note = el('p.said', { 'aria-live': 'polite' });
    this.legend = el('div.scale-legend', { 'aria-hidden': 'true' }, ...steps.map(([text, kind]) => el('span', null, el(`i.heat-${kind}`), text)));
    this.node = el('div.fingerprint', null, this.canvas, this.legend, this.note);
    this.cell = null;
    new ResizeObserver(() => this.draw()).observe(this.node);
    this.canvas.addEventListener('pointermove', (e) => this.point(e));
    this.canvas.addEventListener('pointerleave', () => this.pick(null));
    this.canvas.addEventListener('click', () => this.open());
    this.canvas.addEventListener('keydown', (e) => this.key(e));
    this.line = el('div.time-cursor', { hidden: true });
    this.node.append(this.line);
    onCursor((time) => this.mark(time === null ? NaN : store.began + time));
  }

  show(data) {
    this.data = data;
    this.print = data.output.fingerprint;
    this.canvas.setAttribute('aria-label', `${data.label}: ${data.finding.text} Arrows walk through the cells, enter lists the worst requests.`);
    return this.node;
  }

  // mark moves the time cursor to a time of the clock.
  mark(time) {
    const s = this.shape;
    const x = s ? s.left + ((time - s.first) / 10000) * s.w : NaN;
    this.line.hidden = !(x >= s?.left && x <= this.node.clientWidth);
    if (this.line.hidden) return;
    this.line.style.left = `${x}px`;
    this.line.style.height = `${s.row * this.print.elements.length}px`;
  }

  // kind is the step of the scale of an error.
  kind(error, floor) {
    const { tolerance } = this.data;
    if (tolerance > 0 && error >= 2 * tolerance) return 5;
    if (tolerance > 0 && error >= tolerance) return 4;
    const ratio = error / (floor || 1);
    return ratio <= 1 ? 0 : ratio <= 2 ? 1 : ratio <= 4 ? 2 : 3;
  }

  draw() {
    if (!this.print || !this.node.isConnected) return;
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const heat = [0, 1, 2, 3, 4, 5].map((i) => of(`--heat-${i}`));
    const width = this.node.clientWidth;
    const { elements = [], slices = [] } = this.print;
    const row = Math.max(7, Math.min(24, Math.floor(380 / elements.length)));
    const height = row * elements.length + 22;
    const g = fit(this.canvas, width, height);
    const left = 58;
    const first = Date.parse(slices[0].start);
    const columns = Math.max(1, Math.round((Date.parse(slices.at(-1).start) - first) / 10000) + 1);
    const w = (width - left) / columns;
    this.shape = { left, row, w, first };
    g.clearRect(0, 0, width, height);
    g.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    g.textBaseline = 'middle';
    elements.forEach((e, i) => {
      if (row >= 11 || i % 2 === 0) {
        g.fillStyle = of('--ink');
        g.fillText(elementName(e, this.data.output), 0, (i + 0.5) * row, left - 8);
      }
      for (const s of slices) {
        const x = left + Math.round((Date.parse(s.start) - first) / 10000) * w;
        const kind = this.kind(Number(s.errors?.[i] ?? 0), e.floor);
        g.fillStyle = heat[kind];
        g.fillRect(x, i * row, Math.max(1, w - 1), row - 2);
        if (kind < 4 || w < 5 || row < 9) continue;
        g.fillStyle = kind === 5 ? '#ffffff' : '#16181c';
        const [cx, cy] = [x + (w - 1) / 2, i * row + (row - 2) / 2];
        g.fillRect(cx - 1, cy - 1, 2, 2);
        if (kind === 5) {
          g.fillRect(cx - 3, cy - 1, 6, 2);
          g.fillRect(cx - 1, cy - 3, 2, 6);
        }
      }
    });
    g.fillStyle = of('--muted');
    g.textBaseline = 'alphabetic';
    g.fillText(clock(first), left, height - 5);
    g.textAlign = 'right';
    g.fillText(clock(Date.parse(slices.at(-1).start)), width, height - 5);
    g.textAlign = 'left';
    if (!this.cell) return;
    g.strokeStyle = of('--ink');
    g.lineWidth = 2;
    g.strokeRect(left + this.cell.column * w - 1, this.cell.row * row - 1, w + 1, row);
  }

  point(e) {
    const box = this.canvas.getBoundingClientRect();
    const { left, row, w } = this.shape;
    const cell = { row: Math.floor((e.clientY - box.top) / row), column: Math.floor((e.clientX - box.left - left) / w) };
    this.pick(cell.column >= 0 && this.print.elements[cell.row] ? cell : null);
  }

  pick(cell) {
    this.cell = cell;
    this.draw();
    if (!cell) return say(this.note, '');
    const e = this.print.elements[cell.row];
    const at = this.shape.first + cell.column * 10000;
    const s = this.print.slices.find((q) => Math.abs(Date.parse(q.start) - at) < 5000);
    if (!s) return say(this.note, `${elementName(e, this.data.output)} at ${clock(at)}: nothing was compared.`);
    const error = Number(s.errors?.[cell.row] ?? 0);
    const { tolerance } = this.data;
    say(this.note, `${elementName(e, this.data.output)} at ${clock(at)}: largest error ${error.toPrecision(2)}, ${times(error / e.floor)} the noise floor${tolerance > 0 ? `, ${times(error / tolerance)} the tolerance` : ''}; ${s.rows} rows.`);
  }

  key(e) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (e.key === 'Enter') return this.open();
    if (!by) return;
    e.preventDefault();
    const c = this.cell ?? { row: 0, column: 0 };
    this.pick({ row: Math.max(0, Math.min(this.print.elements.length - 1, c.row + by[0])), column: Math.max(0, c.column + by[1]) });
  }

  open() {
    const worst = $('worst');
    if (!worst) return;
    worst.open = true;
    worst.scrollIntoView({ block: 'nearest' });
  }
}
