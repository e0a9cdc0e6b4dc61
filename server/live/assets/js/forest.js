// The forest plot: one row per metric, all on one axis, in units of the agreed margin.
import { el } from './dom.js';
import { signed } from './format.js';

const reach = 2.5; // margins to each side

const words = { BETTER: 'better', NO_WORSE: 'no worse', WORSE: 'worse', UNDECIDED: 'undecided' };
const titles = { latency: 'slow requests', errors: 'faults of the model', failures: 'failed requests', lost: 'lost episodes', agreement: 'agreement' };

export function forest(rollout) {
  const metrics = rollout.report?.metrics ?? [];
  const node = el('div.forest', { role: 'table', 'aria-label': 'Metrics of both versions' });
  for (const m of metrics) node.append(row(m, rollout));
  if (metrics.length > 0) {
    node.append(el('div.metric.scale', { 'aria-hidden': 'true' }, el('span'), el('span'), el('div.interval', null, mark(-1, 'margin'), mark(0, '0'), mark(1, 'margin')), el('span')));
  }
  return node;
}

function mark(at, text) {
  const node = el('span.mark', null, text);
  node.style.left = place(at);
  return node;
}

function row(m, rollout) {
  const verdict = (m.verdict ?? '').replace('METRIC_VERDICT_', '');
  const word = words[verdict] ?? 'undecided';
  const kind = word.replace(' ', '-');
  const name = m.name === 'outcome' ? (rollout.gate?.outcome ?? 'outcome') : (titles[m.name] ?? m.name);
  // Without a margin to be worse by there is no zone, and the row has a scale of its own.
  const unit = m.margin > 0 ? m.margin : Math.max(Math.abs(m.low ?? 0), Math.abs(m.high ?? 0), Math.abs(m.difference ?? 0), 1e-9) / 2;
  const interval = el(`div.interval.${kind}`, { 'aria-hidden': 'true' }, m.margin > 0 ? el('div.zone') : null, el('div.zero'));
  if (m.difference !== undefined) {
    const low = clamp((m.low ?? -Infinity) / unit);
    const high = clamp((m.high ?? Infinity) / unit);
    const bar = el('div.bar');
    bar.style.left = place(low);
    bar.style.width = `${(100 * (high - low)) / (2 * reach)}%`;
    const dot = el('div.dot');
    dot.style.left = place(clamp(m.difference / unit));
    interval.append(bar, dot);
  }
  return el('div.metric', { role: 'row' }, el('span.metric-name', { role: 'rowheader' }, name), el('span.metric-value', { role: 'cell' }, value(m)), el('div', { role: 'cell' }, interval),
    el(`span.verdict.${kind}`, { role: 'cell' }, `${{ better: '✓ ', worse: '▲ ' }[kind] ?? ''}${word}`));
}

// value says the difference as people would.
function value(m) {
  if (m.difference === undefined) return 'nothing yet';
  if (m.name === 'outcome' && !(m.baseline >= 0 && m.baseline <= 1)) return signed(m.difference, Math.abs(m.difference) < 10 ? 2 : Math.abs(m.difference) < 100 ? 1 : 0);
  return `${signed(m.difference * 100, Math.abs(m.difference) < 0.01 ? 2 : 1)} pp`;
}

const clamp = (v) => Math.max(-reach, Math.min(reach, v));
const place = (v) => `${(100 * (v + reach)) / (2 * reach)}%`;
