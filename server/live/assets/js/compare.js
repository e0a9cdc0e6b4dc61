// The A/B comparison of a rollout: the sentence, a forest plot in which every metric is scaled by its agreed margin, and the
// ribbon of the outcome, whose interval is valid at any time.
import { call, every } from './api.js';
import { choice } from './choice.js';
import { $, el, say } from './dom.js';
import { forest } from './forest.js';
import { clock, count, list, percent, plural } from './format.js';
import { path, plot } from './plot.js';
import { enumWord } from './words.js';

const scanned = 12; // models asked for a rollout at a time
const patience = 20000; // ms until one of many models is asked again whose rollout neither runs nor is shown
const running = 'ROLLOUT_STATE_RUNNING';

export function startCompare(store, findings) {
  const asked = new Map(); // by model: when, and the rollout or null
  let model = '';
  let shown = '';
  const work = async () => {
    while (!(await ask(store, asked, model)) && ![...asked.values()].some((a) => a.rollout)); // one that is not asked yet may have one
    const rollouts = [...asked.values()].map((a) => a.rollout).filter(Boolean).sort((a, b) => (b.state === running) - (a.state === running) || since(b) - since(a));
    model = choose(rollouts.map((r) => [r.model, `${r.model} v${r.candidateVersion} against v${r.baselineVersion}: ${enumWord(r.state, 'ROLLOUT_STATE_')}`]));
    const rollout = asked.get(model)?.rollout ?? null;
    findings.compare = rollout ? finding(rollout) : null;
    const state = JSON.stringify(rollout);
    if (state === shown) return;
    shown = state;
    render(rollout, findings.compare);
  };
  const now = every([$('answers'), $('compare')], 5000, work);
  const choose = choice('compare-choice', now);
  return { clear: (restarted) => {
    if (restarted) findings.compare = undefined;
    shown = '';
    asked.clear();
    now();
  } };
}

// since is when a rollout took its last step.
const since = (r) => Date.parse(r.steps?.at(-1)?.at ?? r.stageSince) || 0;

// ask learns of rollouts: often of those that run or are shown; of the others a few models at a time, those of several versions first.
// It returns whether it has asked for each model.
async function ask(store, asked, shown) {
  const versions = new Map();
  for (const v of store.present ?? []) versions.set(v.model, (versions.get(v.model) ?? new Set()).add(v.version));
  for (const name of asked.keys()) if (!versions.has(name)) asked.delete(name);
  const now = performance.now();
  const old = [...versions].filter(([name]) => {
    const a = asked.get(name);
    return versions.size <= scanned || !a || a.rollout?.state === running || name === shown || now - a.at > patience;
  });
  const rank = ([name, set]) => (name === shown ? -2 : asked.get(name)?.rollout ? -1 : (asked.get(name)?.at ?? 0) - (set.size > 1 ? 1e9 : 0));
  for (const [name] of old.sort((a, b) => rank(a) - rank(b)).slice(0, scanned)) {
    asked.set(name, { at: performance.now(), rollout: (await call('GetRollout', { model: name }))?.rollout ?? null });
  }
  return [...versions.keys()].every((name) => asked.has(name));
}

// finding says which version is better, by how much, and what became of the rollout.
function finding(r) {
  const verdict = enumWord(r.report?.verdict, 'VERDICT_');
  const outcome = (r.report?.metrics ?? []).find((m) => m.name === 'outcome');
  const [candidate, baseline] = [`${r.model} v${r.candidateVersion}`, `${r.model} v${r.baselineVersion}`];
  const better = { METRIC_VERDICT_BETTER: candidate, METRIC_VERDICT_WORSE: baseline }[outcome?.verdict];
  const ended = { ROLLOUT_STATE_PROMOTED: `${candidate}, promoted`, ROLLOUT_STATE_ROLLED_BACK: `${baseline}: v${r.candidateVersion} was rolled back`, ROLLOUT_STATE_ABORTED: better ?? 'Not decided', ROLLOUT_STATE_UNDECIDED: 'Not decided' }[r.state];
  const so = { promote: better ?? `${candidate} is no worse`, rollback: `${baseline}: v${r.candidateVersion} is worse` }[verdict];
  return { bad: r.state === 'ROLLOUT_STATE_ROLLED_BACK' || verdict === 'rollback', good: r.state === 'ROLLOUT_STATE_PROMOTED' || verdict === 'promote',
    short: ended ?? so ?? (better ? `${better}, so far` : 'Not decided yet'), text: `${interval(r, outcome) || sentence(r)} ${became(r)}` };
}

// interval says the difference in the outcome, as the gate judges it: more is better for the candidate.
function interval(r, m) {
  if (m?.difference === undefined || m.low === undefined || m.high === undefined) return '';
  const n = Number(m.baselineCount ?? 0) + Number(m.candidateCount ?? 0);
  const [x, low, high] = [m.difference, m.low, m.high].map((v) => v ?? 0);
  const [outcome, sure] = [r.gate?.outcome ?? 'its outcome', low > 0 || high < 0];
  return `${sure ? `v${r.candidateVersion} is ${x < 0 ? 'worse' : 'better'} than v${r.baselineVersion} by ${size(x)} in ${outcome}` : `In ${outcome}, v${r.candidateVersion} may be better or worse than v${r.baselineVersion}`}; ${percent(1 - (r.gate?.alpha || 0.05))} interval ${format(low)} to ${format(high)}, from ${count(n)} episodes.`;
}

// became says what the rollout did last, and when.
function became(r) {
  const step = r.steps?.at(-1);
  const at = step ? ` at ${clock(Date.parse(step.at))}` : '';
  return { ROLLOUT_STATE_RUNNING: `v${r.candidateVersion} has ${step?.percent ?? r.stages?.[r.stage ?? 0] ?? 0}\u202f% of the traffic now.`,
    ROLLOUT_STATE_PROMOTED: `The rollout ended${at}: v${r.candidateVersion} has all traffic.`,
    ROLLOUT_STATE_ROLLED_BACK: `The rollout ended${at}: v${r.baselineVersion} has all traffic again.`,
    ROLLOUT_STATE_ABORTED: `The rollout was ended${at}${step?.reason ? `: ${step.reason.replace(/\.$/, '')}` : ''}.`,
    ROLLOUT_STATE_UNDECIDED: `The rollout ended${at} without a verdict: all traffic is at v${r.baselineVersion}.` }[r.state] ?? '';
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
    body.replaceChildren(el('p.sub', null, 'A rollout divides traffic between two versions of a model and compares them by outcome, errors and latency; its gate decides by intervals. ', el('code', null, 'weft rollout start'), ' begins one.'));
    return;
  }
  const tone = found.good ? 'span.good' : found.bad ? 'span.bad' : 'span';
  title.replaceChildren(`${r.model} v${r.candidateVersion} against v${r.baselineVersion}: `, el(tone, null, sentence(r)));
  const ribbon = el('div.ribbon');
  const steps = (r.steps ?? []).slice(-6).map((q) => `${clock(Date.parse(q.at))} ${q.state === running ? `${q.percent ?? 0}\u202f%` : enumWord(q.state, 'ROLLOUT_STATE_')}`);
  body.replaceChildren(
    el('p.sub', null, `${became(r)}${steps.length > 0 ? ` Traffic of v${r.candidateVersion} step by step: ${steps.join(', ')}.` : ''}`),
    el('p.sub', null, `Each bar is an interval of the difference, scaled by its agreed margin. Right is better; grey zone: no worse than agreed.${(r.report?.metrics ?? []).some((m) => !(m.margin > 0)) ? ' A row without a grey zone has no agreed margin: there anything less counts, and the row has its own scale.' : ''}`),
    forest(r), ribbon, el('p.said', null, foot(r)));
  drawRibbon(ribbon, r);
}

// Why episodes do not count, in words.
const outside = { no_room: 'for which there was no room', outside: 'begun before the rollout or after its stages', unpaired: 'of a stage that only one version had', two_tables: 'that saw two tables of the traffic', same_draw: 'whose episode id was used before' };

function foot(r) {
  const { split, excluded } = r.report ?? {};
  const parts = [];
  if (split) {
    const [b, c] = [Number(split.baseline ?? 0), Number(split.candidate ?? 0)];
    parts.push(`${split.mismatch ? '▲ Mismatch: ' : ''}${count(b)} episodes to v${r.baselineVersion} and ${count(c)} to v${r.candidateVersion}; ${count(split.candidateExpected ?? 0)} were expected${split.pValue !== undefined ? ` (p ${split.pValue.toFixed(2)}${split.mismatch ? '' : ', no mismatch'})` : ''}.`);
  }
  const [both, repeated] = [(e) => Number(e.baseline ?? 0) + Number(e.candidate ?? 0), (excluded ?? []).find((e) => e.reason === 'repeated')];
  const others = (excluded ?? []).filter((e) => e !== repeated);
  if (others.length > 0) parts.push(`Not counted: ${list(others.map((e) => `${count(both(e))} ${outside[e.reason] ?? e.reason}`))}.`);
  if (repeated) parts.push(`▲ ${plural(both(repeated), 'outcome')} replaced earlier ones of the same episode id, which counts once: give each episode an id of its own.`);
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
    if (width > 480) add('text', { x: width - right, y: 162, 'text-anchor': 'end' }, 'valid at any time, however often one looks');
  });
}

// size is a number of at most three digits that say something.
const size = (v) => Number(Math.abs(v ?? 0).toPrecision(Math.abs(v ?? 0) >= 100 ? 3 : 2)).toLocaleString('en-US', { maximumSignificantDigits: 3 });
const format = (v) => `${v < 0 ? '\u2212' : v > 0 ? '+' : ''}${size(v)}`;
