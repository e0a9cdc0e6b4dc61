// Service curves: device time received by weight. Flows that always ask for more than their share have parallel curves; how far
// they lie apart is the lag, which the server bounds. The strip below shows it against its bound.
import { every } from './api.js';
import { fit } from './canvas.js';
import { onCursor, setCursor } from './cursor.js';
import { $, say } from './dom.js';
import { ms, plural, short } from './format.js';

const cells = 150;
const span = 30000; // ms
const shownFlows = 10;

export function startService(store) {
  const canvas = $('service-chart');
  const state = { store, canvas, cursor: null };
  const draw = () => paint(state);
  every($('service'), 1000, async () => draw());
  onCursor((time) => {
    state.cursor = time;
    mark(state);
  });
  canvas.addEventListener('pointermove', (e) => {
    if (!state.scale) return;
    const x = e.clientX - canvas.getBoundingClientRect().left;
    setCursor(state.scale.from + (x - state.scale.left) / state.scale.k, 'service');
  });
  canvas.addEventListener('pointerleave', () => setCursor(null, 'service'));
  new ResizeObserver(draw).observe(canvas.parentElement);
  return { theme: draw, clear: draw };
}

// curves sums the batches of the last seconds up by version and cell of time, and marks the cells in which it had requests.
function curves(store) {
  const to = store.now;
  const from = Math.max(to - span, 0);
  const cell = (to - from) / cells || 1;
  const flows = new Map();
  const of = (id) => {
    let f = flows.get(id);
    if (!f) flows.set(id, (f = { version: store.versions[id], sums: new Float64Array(cells + 1), busy: new Uint8Array(cells + 1) }));
    return f;
  };
  const b = store.batches;
  for (let p = b.firstFrom(b.end, from); p < b.next; p++) {
    const i = p & b.mask;
    of(b.version[i]).sums[Math.min(cells, Math.max(0, Math.ceil((b.end[i] - from) / cell)))] += b.device[i];
  }
  const r = store.requests;
  for (let p = r.firstFrom(r.end, from); p < r.next; p++) {
    const i = p & r.mask;
    if (r.version[i] === 0 || !flows.has(r.version[i] - 1)) continue;
    const busy = flows.get(r.version[i] - 1).busy;
    const last = Math.min(cells, Math.floor((r.end[i] - from) / cell));
    for (let c = Math.max(0, Math.floor((r.arrival[i] - from) / cell)); c <= last; c++) busy[c] = 1;
  }
  const list = [...flows.values()];
  for (const f of list) {
    const weight = f.version.weight || 1;
    for (let c = 0, sum = 0; c <= cells; c++) f.sums[c] = (sum += f.sums[c] / weight);
  }
  list.sort((x, y) => y.sums[cells] - x.sums[cells]);
  return { from, to, flows: list.slice(0, shownFlows), others: Math.max(0, list.length - shownFlows) };
}

function paint(state) {
  const { store, canvas } = state;
  const { from, to, flows, others } = curves(store);
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const width = canvas.parentElement.clientWidth;
  const height = 300;
  const g = fit(canvas, width, height);
  g.clearRect(0, 0, width, height);
  const font = getComputedStyle(document.body).fontFamily;
  g.font = `12px ${font}`;
  const [left, right, top, bottom, strip] = [52, 96, 8, 206, 280];
  const k = (width - left - right) / Math.max(1, to - from);
  const most = Math.max(1, ...flows.map((f) => f.sums[cells]));
  const x = (c) => left + ((width - left - right) * c) / cells;
  const y = (v) => bottom - ((bottom - top) * v) / most;
  state.scale = { left, k, from, right: width - right, top, strip };
  g.textAlign = 'right';
  for (const part of [0, 0.5, 1]) {
    g.fillStyle = of('--line');
    g.fillRect(left, y(most * part), width - left - right, 1);
    g.fillStyle = of('--muted');
    g.fillText(ms(most * part), left - 7, y(most * part) + 4);
  }
  let labelled = -Infinity;
  for (const f of flows) {
    g.strokeStyle = f.version.colour;
    g.lineWidth = 2.2;
    for (const idle of [false, true]) {
      g.setLineDash(idle ? [1.5, 4] : f.version.stripe > 0 ? [9, 3] : []);
      g.beginPath();
      for (let c = 1; c <= cells; c++) {
        if ((f.busy[c] === 0) !== idle) continue;
        g.moveTo(x(c - 1), y(f.sums[c - 1]));
        g.lineTo(x(c), y(f.sums[c]));
      }
      g.stroke();
    }
    g.setLineDash([]);
    g.textAlign = 'left';
    g.fillStyle = of('--ink');
    const at = Math.max(y(f.sums[cells]) + 4, labelled + 13);
    labelled = at;
    if (at < bottom + 12) g.fillText(short(f.version.label, 14), width - right + 7, at, right - 9);
  }
  lagStrip(g, state, { of, left, right, width, k, from, to, strip });
  describe(store, flows, others);
  mark(state);
}

// lagStrip draws the lag of the device that has most of it, below its bound.
function lagStrip(g, { store }, { of, left, right, width, k, from, to, strip }) {
  const device = mostLag(store);
  if (!device || !(device.lagBoundMs > 0)) return;
  const topOf = strip - 44;
  const bound = Math.max(...store.samples.map((s) => s.devices.find((d) => d.name === device.name)?.bound ?? 0));
  const y = (v) => strip - ((strip - topOf) * Math.min(1.15, v / bound));
  g.fillStyle = of('--zone');
  g.fillRect(left, y(device.lagBoundMs), width - left - right, strip - y(device.lagBoundMs));
  g.strokeStyle = of('--accent');
  g.lineWidth = 1.6;
  g.beginPath();
  let begun = false;
  for (const s of store.samples) {
    const d = s.devices.find((q) => q.name === device.name);
    if (!d || s.at < from) continue;
    const px = left + (s.at - from) * k;
    if (begun) g.lineTo(px, y(d.lag));
    else g.moveTo(px, y(d.lag));
    begun = true;
  }
  g.stroke();
  g.fillStyle = of('--muted');
  g.textAlign = 'right';
  g.fillText('0', left - 7, strip + 4);
  g.fillText(ms(device.lagBoundMs), left - 7, y(device.lagBoundMs) + 8);
  g.textAlign = 'left';
  g.fillText('furthest behind,', width - right + 7, strip - 24, right - 9);
  g.fillText('and its limit', width - right + 7, strip - 9, right - 9);
  g.fillText(`\u2212${ms(to - from)}`, left, strip + 16);
  g.textAlign = 'right';
  g.fillText('now', width - right, strip + 16);
}

const mostLag = (store) => store.devices.reduce((a, b) => (a === null || b.lagMs > a.lagMs ? b : a), null);

// mark moves the time cursor, an element above the canvas.
function mark(state) {
  if (!state.line) {
    state.line = document.createElement('div');
    state.line.className = 'time-cursor';
    state.canvas.parentElement.append(state.line);
  }
  const s = state.scale;
  const px = s && state.cursor !== null ? s.left + (state.cursor - s.from) * s.k : -1;
  state.line.hidden = !(px >= (s?.left ?? 0) && px <= (s?.right ?? 0));
  if (state.line.hidden) return;
  state.line.style.left = `${state.canvas.offsetLeft + px}px`;
  state.line.style.top = `${state.canvas.offsetTop + s.top}px`;
  state.line.style.height = `${s.strip - s.top}px`;
}

function describe(store, flows, others) {
  const d = mostLag(store);
  const within = d && d.lagBoundMs > 0 ? d.lagMs <= d.lagBoundMs : true;
  const behind = `${ms(d?.lagMs ?? 0)} of device time behind its share`;
  say($('service-title'), !d || flows.length === 0 ? `No version used a device in the last ${ms(Math.min(span, store.now))}` : d.lagMs < 0.5 ? 'Fair: no version is behind its share'
    : within ? `Fair: no version is more than ${behind}` : `Not fair now: a version is ${behind}`);
  $('service').classList.toggle('bare', flows.length === 0);
  say($('service-text'), flows.length === 0 ? '' : `Most service by weight in ${ms(Math.min(span, store.now))}: ${flows[0].version.label} with ${ms(flows[0].sums[cells])}; least of those shown: ${flows.at(-1).version.label} with ${ms(flows.at(-1).sums[cells])}${others ? `; ${plural(others, 'more version')} not shown` : ''}.`);
}
