// The last hour or day: share, rate, latency and queue of the server or of one version, with one cursor over all.
import { call, every } from './api.js';
import { setCursor, onCursor } from './cursor.js';
import { $, el, say } from './dom.js';
import { clock, count, ms, percent, rate } from './format.js';

const charts = [
  { name: 'share', title: 'Device time used', lines: [['share', 'used', '--accent', percent]], most: 1 },
  { name: 'rate', title: 'Requests per second', lines: [['requestsPerSecond', 'answered', '--accent', rate]] },
  { name: 'lost', title: 'Late and lost per second', lines: [['latePerSecond', 'late', '--red', rate], ['lostPerSecond', 'lost', '--ink', rate, [2, 3]]] },
  { name: 'latency', title: 'Latency', lines: [['p50Ms', 'p50', '--muted', ms], ['p99Ms', 'p99', '--accent', ms]] },
  { name: 'queue', title: 'Requests waiting', lines: [['waiting', 'waiting', '--accent', count]] },
  { name: 'rows', title: 'Rows per batch', lines: [['rowsPerBatch', 'rows per batch', '--accent', rate]] },
];

export function startHistory(store) {
  const body = $('history-body');
  const state = { day: false, plots: [], data: null, key: '' };
  const figures = charts.map((c) => {
    const host = el('div', { role: 'img' });
    const title = el('strong');
    body.append(el('figure', null, el('figcaption', null, title), host));
    return { host, title };
  });

  const render = () => {
    for (const p of state.plots) p.destroy();
    state.plots = [];
    const h = state.data;
    if (!h || !globalThis.uPlot) return;
    charts.forEach((c, i) => state.plots.push(make(figures[i].host, c, h, store)));
  };
  const work = async () => {
    const [model, version] = JSON.parse($('history-model').value || '["",0]');
    const fields = { ...(model && { model, version }), ...(state.day && { day: true }) };
    const history = (await call('GetHistory', fields))?.history ?? null;
    state.data = history && fill(history);
    choices(store);
    const h = state.data;
    charts.forEach((c, i) => {
      const text = h ? sentence(c, h) : `${c.title}: nothing yet`;
      say(figures[i].title, text);
      figures[i].host.setAttribute('aria-label', text);
    });
    say($('history-title'), state.day ? 'Over time: up to 24 hours' : 'Over time: up to an hour');
    say($('history-text'), h ? summary(h) : 'There is no history yet.');
    const key = JSON.stringify([fields, body.clientWidth]);
    if (state.plots.length === 0 || key !== state.key || !h) render();
    else state.plots.forEach((p, i) => p.setData(table(charts[i], h, store), true));
    state.key = key;
  };
  const now = every($('history'), 5000, work);
  $('history-model').addEventListener('change', now);
  for (const [id, day] of [['history-hour', false], ['history-day', true]]) {
    $(id).addEventListener('click', () => {
      state.day = day;
      $('history-hour').setAttribute('aria-pressed', String(!day));
      $('history-day').setAttribute('aria-pressed', String(day));
      now();
    });
  }
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(body.clientWidth - width) < 2) return;
    width = body.clientWidth;
    render();
  }).observe(body);
  onCursor((time, by) => {
    if (by === 'history' || state.plots.length === 0) return;
    for (const p of state.plots) p.setCursor({ left: time === null ? -10 : p.valToPos((store.began + time) / 1000, 'x'), top: -10 }, false);
  });
  return { theme: render, clear: now };
}

// fill gives columns that were left out, because nothing but zeros was in them, their zeros.
function fill(h) {
  const n = h.atMs?.length ?? 0;
  const out = { ...h, atMs: h.atMs ?? [] };
  for (const c of charts) for (const [name] of c.lines) out[name] = h[name] ?? new Array(n).fill(0);
  return n > 1 ? out : null;
}

const table = (chart, h, store) => [h.atMs.map((t) => (store.began + t) / 1000), ...chart.lines.map(([name]) => h[name])];

function make(host, chart, h, store) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: of('--muted'), font: `11px ${getComputedStyle(document.body).fontFamily}`, grid: { stroke: of('--line'), width: 1 }, ticks: { show: false } };
  const format = chart.lines[0][3];
  host.replaceChildren();
  return new globalThis.uPlot({
    width: Math.max(240, host.clientWidth), height: 190,
    cursor: { y: false, sync: { key: 'weft', scales: ['x', null] }, points: { size: 6 }, drag: { x: true, y: false } },
    hooks: { setCursor: [(u) => u.cursor.event && setCursor(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, 'x') * 1000 - store.began : null, 'history')] },
    scales: { y: { range: (u, low, high) => [0, chart.most ? Math.max(chart.most, high) : Math.max(high * 1.08, 1)] } },
    axes: [{ ...axis, size: 30, space: 70, values: (u, times, axisAt, space, step) => times.map((t) => clock(t * 1000).slice(0, step < 60 ? 8 : 5)) }, { ...axis, size: 58, values: (u, all) => all.map(format) }],
    series: [{ label: 'at', value: (u, v) => (v ? clock(v * 1000) : '') }, ...chart.lines.map(([, label, stroke, show, dash]) => ({ label, stroke: of(stroke), width: 1.5, dash, points: { show: false }, value: (u, v) => (v === null || v === undefined ? '' : show(v)) }))],
  }, table(chart, h, store), host);
}

// choices lists the versions that can be chosen.
function choices(store) {
  const select = $('history-model');
  const wanted = [...(store.present ?? [])].sort((a, b) => b.share - a.share).slice(0, 100).map((v) => v.label).sort();
  if (document.activeElement === select || JSON.stringify(wanted) === select.dataset.list) return;
  select.dataset.list = JSON.stringify(wanted);
  const chosen = select.value;
  const options = wanted.map((label) => {
    const v = store.present.find((x) => x.label === label);
    return el('option', { value: JSON.stringify([v.model, v.version]) }, label);
  });
  select.replaceChildren(el('option', { value: '' }, 'the whole server'), ...options);
  select.value = options.some((o) => o.value === chosen) ? chosen : '';
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / Math.max(1, values.length);

// typical is the median of the steps that had requests.
function typical(values) {
  const some = values.filter((v) => v > 0).sort((a, b) => a - b);
  return some[some.length >> 1] ?? 0;
}

function sentence(c, h) {
  if (c.name === 'share') return `Device time used: ${percent(mean(h.share))} on average, ${percent(Math.max(...h.share))} at most`;
  if (c.name === 'rate') return `${rate(mean(h.requestsPerSecond))} requests answered per second on average`;
  if (c.name === 'lost') return `On average ${rate(mean(h.latePerSecond))} answers per second were late, ${rate(mean(h.lostPerSecond))} requests lost`;
  if (c.name === 'latency') return `Latency of the slowest version in a typical ${h.stepMs > 1000 ? 'step' : 'second'}: p50 ${ms(typical(h.p50Ms))}, p99 ${ms(typical(h.p99Ms))}`;
  if (c.name === 'queue') return `${rate(mean(h.waiting))} requests waited on average, ${rate(Math.max(...h.waiting))} at most`;
  return `${rate(mean(h.rowsPerBatch))} rows shared a batch on average`;
}

function summary(h) {
  const worst = h.p99Ms.indexOf(Math.max(...h.p99Ms));
  const at = new Date(Date.now() - (h.atMs.at(-1) - h.atMs[worst])).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  return `The highest p99 was ${ms(h.p99Ms[worst])}, at ${at}. Steps of ${ms(h.stepMs ?? 1000)}; drag to look closer, double-click to see all.`;
}
