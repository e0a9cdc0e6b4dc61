// Cost curves: what a batch of each size takes, measured and estimated.
import { call, every } from './api.js';
import { fit } from './canvas.js';
import { $, el, say, swatch } from './dom.js';
import { ms, plural } from './format.js';

const shown = 6; // versions
const kept = 400; // measured batches of each

export function startCost(store) {
  const body = $('cost-body');
  const charts = new Map();
  let last = [];
  let measured = false; // some time, if not lately
  const work = async () => {
    const state = (await call('GetSchedulerState', { max_decisions: 1 }))?.state ?? {};
    const sizes = new Map();
    for (const m of (await call('ListModels'))?.models ?? []) for (const v of m.versions ?? []) sizes.set(`${m.name} v${v.version}`, v.batching?.allowedBatchSizes ?? []);
    last = collect(store, state, sizes);
    measured = (state.costs ?? []).length > 0;
    render();
  };
  const render = () => {
    say($('cost-title'), last.length > 0 ? headline(last) : measured ? 'What a batch costs: none ran in the last minute' : 'What a batch costs is not measured yet');
    $('cost').classList.toggle('bare', last.length === 0);
    const nodes = last.map((c) => {
      const label = c.version.label;
      if (!charts.has(label)) {
        const title = el('strong');
        const canvas = el('canvas.chart', { role: 'img' });
        charts.set(label, { title, canvas, node: el('figure', null, el('figcaption', null, swatch(c.version.colour), title), canvas) });
      }
      const chart = charts.get(label);
      const text = sentence(c);
      say(chart.title, text);
      chart.canvas.setAttribute('aria-label', text);
      return chart.node;
    });
    if (nodes.length !== body.childElementCount || nodes.some((n, i) => body.children[i] !== n)) body.replaceChildren(...nodes);
    for (const c of last) paint(charts.get(c.version.label).canvas, c);
    for (const key of charts.keys()) if (charts.size > 3 * shown && !last.some((c) => c.version.label === key)) charts.delete(key);
  };
  every($('cost'), 4000, work);
  new ResizeObserver(() => last.length > 0 && render()).observe(body);
  return { theme: render, clear: () => charts.clear() };
}

// collect gathers, for the most active versions, their measured batches, estimates and sizes.
function collect(store, state, sizes) {
  const best = [...(store.present ?? [])].filter((v) => v.totals.batches > 0).sort((a, b) => b.share - a.share).slice(0, shown);
  const out = new Map(best.map((v) => [v.id, { version: v, dots: [], costs: [], curve: null, sizes: sizes.get(v.label) ?? [] }]));
  const b = store.batches;
  for (let p = b.next - 1; p >= b.first; p--) {
    const i = p & b.mask;
    const c = out.get(b.version[i]);
    if (c && c.dots.length < kept) c.dots.push([b.size[i], b.device[i]]);
  }
  for (const cost of state.costs ?? []) {
    const c = [...out.values()].find((q) => q.version.model === cost.model && String(q.version.version) === String(cost.version));
    if (c && !cost.cold) c.costs.push([cost.batchSize, cost.medianUs / 1000, (cost.highUs ?? 0) / 1000]);
  }
  for (const curve of state.curves ?? []) {
    const c = [...out.values()].find((q) => q.version.model === curve.model && String(q.version.version) === String(curve.version));
    if (c && curve.betaUs > 0) c.curve = { alpha: (curve.alphaUs ?? 0) / 1000, beta: curve.betaUs / 1000, factor: curve.factor || 1 };
  }
  return [...out.values()].filter((c) => c.dots.length > 0);
}

// bands are the tenth and the ninetieth percentile and the median of the measured batches, by size.
function bands(c) {
  const bySize = new Map();
  for (const [size, time] of c.dots) {
    if (!bySize.has(size)) bySize.set(size, []);
    bySize.get(size).push(time);
  }
  return [...bySize].map(([size, times]) => {
    times.sort((a, b) => a - b);
    const at = (q) => times[Math.min(times.length - 1, Math.floor(q * times.length))];
    return { size, low: at(0.1), middle: at(0.5), high: at(0.9), n: times.length };
  }).sort((a, b) => a.size - b.size);
}

function estimate(c, size) {
  if (c.curve) return c.curve.factor * (c.curve.alpha + c.curve.beta * size);
  return c.costs.find(([s]) => s === size)?.[1] ?? null;
}

// ends are the smallest and the largest size that were measured often enough to say something of.
function ends(c) {
  const all = bands(c);
  const often = all.filter((b) => b.n >= 5);
  return often.length > 0 ? [often[0], often.at(-1)] : [all[0], all.at(-1)];
}

// headline is of the version that gains most by batching.
function headline(charts) {
  const gain = (c) => {
    const [first, last] = ends(c);
    return first === last ? 0 : last.size / first.size / Math.max(1, last.middle / first.middle);
  };
  const best = charts.reduce((a, b) => (gain(b) > gain(a) ? b : a));
  if (gain(best) === 0) return 'What a batch costs';
  const [first, last] = ends(best);
  return `Batching gains: ${sentence(best)}${last.middle < 1.05 * first.middle ? '' : `, not ${Math.round(last.size / first.size)}×`}`;
}

function sentence(c) {
  const [first, last] = ends(c);
  if (first === last) return `${c.version.label}: a batch of ${plural(first.size, 'row')} takes ${ms(first.middle)}`;
  const ratio = last.middle / first.middle;
  return `${c.version.label}: ${last.size} rows cost ${ratio < 1.05 ? 'no more than' : `${ratio.toFixed(1)}×`} ${first.size === 1 ? 'one row' : `${first.size} rows`}`;
}

function paint(canvas, c) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const width = canvas.parentElement?.clientWidth ?? 0;
  if (width === 0) return;
  const height = 176;
  const g = fit(canvas, width, height);
  g.clearRect(0, 0, width, height);
  g.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const [top, bottom] = [8, 146];
  const largest = Math.max(2, ...c.sizes, ...c.dots.map(([s]) => s));
  const most = Math.max(...c.dots.map(([, t]) => t), estimate(c, largest) ?? 0) * 1.06;
  const left = 8 + Math.max(...[0.5, 1].map((part) => g.measureText(ms((part * most) / 1.06)).width));
  const x = (size) => left + 12 + ((width - left - 26) * Math.log2(size)) / Math.log2(largest);
  const y = (time) => bottom - ((bottom - top) * time) / most;
  g.textAlign = 'right';
  for (const part of [0, 0.5, 1]) {
    g.fillStyle = of('--line');
    g.fillRect(left, y((part * most) / 1.06), width - left, 1);
    g.fillStyle = of('--muted');
    g.fillText(ms((part * most) / 1.06), left - 6, y((part * most) / 1.06) + 4);
  }
  const all = bands(c);
  g.fillStyle = c.version.colour;
  g.globalAlpha = 0.25;
  g.beginPath();
  all.forEach((b, i) => g[i ? 'lineTo' : 'moveTo'](x(b.size), y(b.high)));
  all.toReversed().forEach((b) => g.lineTo(x(b.size), y(b.low)));
  g.fill();
  // The newest come first in dots, so that they are painted last.
  for (let i = c.dots.length - 1; i >= 0; i--) {
    const [size, time] = c.dots[i];
    g.globalAlpha = 0.12 + 0.6 * (1 - i / c.dots.length) ** 2;
    g.beginPath();
    g.arc(x(size) + (((i * 37) % 11) - 5) * 0.9, y(time), 2.1, 0, 7);
    g.fill();
  }
  g.globalAlpha = 1;
  g.strokeStyle = of('--ink');
  g.lineWidth = 1.5;
  g.beginPath();
  let begun = false;
  const steps = c.curve ? Array.from({ length: 40 }, (_, i) => 2 ** ((Math.log2(largest) * i) / 39)) : c.costs.map(([s]) => s);
  for (const size of steps) {
    const time = estimate(c, size);
    if (time === null) continue;
    g[begun ? 'lineTo' : 'moveTo'](x(size), y(time));
    begun = true;
  }
  g.stroke();
  g.textAlign = 'center';
  const ticks = c.sizes.length > 0 ? c.sizes : all.map((b) => b.size);
  let right = -Infinity;
  for (const size of ticks) {
    g.fillStyle = of('--muted');
    g.fillRect(x(size), bottom, 1, 5);
    if (x(size) - right < 22) continue;
    right = x(size);
    g.fillText(String(size), x(size), bottom + 17);
  }
  g.textAlign = 'right';
  g.fillText('rows', width, bottom + 29);
}
