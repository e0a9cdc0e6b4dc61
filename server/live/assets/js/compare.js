// The A/B comparison of a rollout: the sentence, a forest plot in which every metric is scaled by its agreed margin, and the
// ribbon of the outcome, whose interval is valid at any time.
import { call, every } from './api.js';
import { $, el, say } from './dom.js';
import { forest } from './forest.js';
import { count, list } from './format.js';
import { path, plot } from './plot.js';
import { enumWord } from './words.js';

const scanned = 12; // models asked for a rollout at a time
const patience = 20000; // ms until a model without one is asked again
const none = new Map(); // models without one, and when they were asked

export function startCompare(store, findings) {
  let model = '';
  let shown = '';
  const work = async () => {
    const answer = await find(store, model);
    model = answer?.model ?? '';
    findings.compare = answer ? finding(answer) : null;
    const state = JSON.stringify(answer);
    if (state === shown) return;
    shown = state;
    render(answer, findings.compare);
  };
  every($('compare'), 5000, work);
  render(null, null);
  return { clear: () => {
    shown = '';
    none.clear();
  } };
}

// find returns the rollout of the model shown, or else of the first that has one; running ones first.
async function find(store, model) {
  const present = store.present ?? [];
  if (model !== '' && present.some((v) => v.model === model)) return (await call('GetRollout', { model }))?.rollout ?? null;
  // A rollout has two versions.
  const several = [...new Set(present.map((v) => v.model))].filter((name) => new Set(present.filter((v) => v.model === name).map((v) => v.version)).size > 1);
  const now = performance.now();
  let best = null;
  for (const name of several.filter((n) => !(none.get(n) > now - patience)).slice(0, scanned)) {
    const rollout = (await call('GetRollout', { model: name }))?.rollout;
    if (!rollout) none.set(name, now);
    if (rollout && (best === null || rollout.state === 'ROLLOUT_STATE_RUNNING')) best = rollout;
    if (best?.state === 'ROLLOUT_STATE_RUNNING') break;
  }
  return best;
}

function finding(r) {
  const report = r.report ?? {};
  const verdict = enumWord(report.verdict, 'VERDICT_');
  const candidate = `${r.model} v${r.candidateVersion}`;
  const short = { promote: `${candidate} may go on`, rollback: `${r.model} v${r.baselineVersion}: ${candidate} is worse` }[verdict] ?? 'Not decided yet';
  const better = (report.metrics ?? []).filter((m) => m.verdict === 'METRIC_VERDICT_BETTER');
  return { bad: verdict === 'rollback', good: verdict === 'promote', short: verdict === 'promote' && better.length > 0 ? `${candidate}` : short, text: sentence(r) };
}

function sentence(r) {
  const text = r.report?.summary || (r.report?.checks ?? []).map((c) => c.reason).filter(Boolean)[0] || 'The gate has not reported yet';
  return `${text}.`.replace(/\.\.$/, '.');
}

function render(r, found) {
  const body = $('compare-body');
  const title = $('compare-title');
  if (!r) {
    say(title, 'No two versions are compared');
    body.replaceChildren(el('p.sub', null, 'A rollout divides traffic between two versions of a model and compares them by outcome, errors and latency; its gate decides by intervals. `weft rollout start` begins one.'));
    return;
  }
  const tone = found.good ? 'span.good' : found.bad ? 'span.bad' : 'span';
  title.replaceChildren(`${r.model} v${r.candidateVersion} against v${r.baselineVersion}: `, el(tone, null, sentence(r)));
  const ribbon = el('div.ribbon');
  const state = enumWord(r.state, 'ROLLOUT_STATE_');
  const stage = r.stages?.[r.stage ?? 0];
  body.replaceChildren(
    el('p.sub', null, `Rollout ${state}${stage !== undefined ? `, ${stage} % of the traffic for v${r.candidateVersion}` : ''}. Each bar is an interval of the difference, scaled by its agreed margin. Right is better; grey zone: no worse than agreed.${(r.report?.metrics ?? []).some((m) => !(m.margin > 0)) ? ' Rows without a zone allow nothing less, and have a scale of their own.' : ''}`),
    forest(r), ribbon, el('p.said', null, foot(r)));
  drawRibbon(ribbon, r);
}

function foot(r) {
  const { split, excluded } = r.report ?? {};
  const parts = [];
  if (split) {
    const [b, c] = [Number(split.baseline ?? 0), Number(split.candidate ?? 0)];
    parts.push(`${split.mismatch ? '▲ Mismatch: ' : ''}${count(b)} episodes to v${r.baselineVersion} and ${count(c)} to v${r.candidateVersion}; ${count(split.candidateExpected ?? 0)} were expected${split.pValue !== undefined ? ` (p ${split.pValue.toFixed(2)}${split.mismatch ? '' : ', no mismatch'})` : ''}.`);
  }
  if (excluded?.length) parts.push(`Not counted: ${list(excluded.map((e) => `${count(Number(e.baseline ?? 0) + Number(e.candidate ?? 0))} ${e.reason.replaceAll('_', ' ')}`))}.`);
  return parts.join(' ');
}

function drawRibbon(node, r) {
  const points = r.history?.points ?? [];
  if (points.length < 2) {
    node.replaceChildren(el('p.sub', null, 'The ribbon of the outcome begins when both versions have enough episodes.'));
    return;
  }
  const name = r.gate?.outcome ?? 'outcome';
  const margin = (r.report?.metrics ?? []).find((m) => m.name === 'outcome')?.margin ?? r.gate?.margin ?? 0;
  const n = (p) => Number(p.baselineCount ?? 0) + Number(p.candidateCount ?? 0);
  const last = points.at(-1);
  const largest = Math.max(margin * 1.6, Math.abs(last.low) * 1.8, Math.abs(last.high) * 1.8, 1e-9);
  const most = Math.min(Math.max(...points.map((p) => Math.max(Math.abs(p.low ?? 0), Math.abs(p.high ?? 0)))), largest * 1.9);
  const label = `${name}: interval of the difference from ${n(points[0])} to ${n(last)} episodes; now ${format(last.low)} to ${format(last.high)}`;
  plot(node, 168, label, (add, width) => {
    const [left, right, top, bottom] = [52, 12, 18, 142];
    const x = (v) => left + ((width - left - right) * v) / n(last);
    const y = (v) => top + ((most - Math.max(-most, Math.min(most, v ?? 0))) / (2 * most)) * (bottom - top);
    if (margin > 0) add('rect', { class: 'zone', x: left, width: width - left - right, y: y(margin), height: y(-margin) - y(margin) });
    add('path', { class: 'band', d: `${path(points.map((p) => [x(n(p)), y(p.high)]))}L${path(points.toReversed().map((p) => [x(n(p)), y(p.low)])).slice(1)}Z` });
    add('line', { class: 'axis', x1: left, x2: width - right, y1: y(0), y2: y(0) });
    add('path', { class: 'middle', d: path(points.map((p) => [x(n(p)), y(p.difference)])) });
    for (const v of margin > 0 ? [margin, 0, -margin] : [most / 2, 0, -most / 2]) add('text', { x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, format(v));
    let free = -Infinity;
    for (const m of (r.history.moments ?? []).filter((q) => q.step)) {
      const at = x(n(m));
      add('line', { class: 'moment', x1: at, x2: at, y1: top - 6, y2: bottom });
      const words = width < 480 ? `${m.percent ?? 0} %` : `gate opened: ${m.percent ?? 0} %`;
      if (at < free || (at > width - 7 * words.length && at - 7 * words.length < free)) continue;
      free = at + 7 * words.length;
      const end = at > width - 7 * words.length;
      add('text', { class: 'moment-text', x: at + (end ? -5 : 5), y: top + 2, 'text-anchor': end ? 'end' : undefined }, words);
    }
    add('text', { x: left, y: 162 }, `${name}, ${count(n(last))} episodes`);
    if (width > 480) add('text', { x: width - right, y: 162, 'text-anchor': 'end' }, 'valid at any time: looking does no harm');
  });
}

const format = (v) => `${v < 0 ? '−' : v > 0 ? '+' : ''}${Math.abs(v ?? 0).toPrecision(2).replace(/\.?0+$/, '') || '0'}`;
