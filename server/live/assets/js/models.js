// The models, their versions, and the state each is in: words, not codes.
import { call, every } from './api.js';
import { colour } from './colour.js';
import { $, el, say, swatch } from './dom.js';
import { bytes, list, plural, short, steps } from './format.js';
import { enumWord } from './words.js';

const most = 60; // versions shown
const signs = { ready: '●', loading: '◔', failed: '▲', unloading: '◌' };
const proofs = { structure: 'proven by the graph', examples: 'proven by examples', trusted: 'trusted, not proven', none: 'not proven' };

export function startModels(store) {
  let shown = '';
  const work = async () => {
    const models = (await call('ListModels'))?.models ?? [];
    const text = JSON.stringify([models, Object.fromEntries((store.present ?? []).map((v) => [v.label, v.slot])), [...(store.shadows ?? [])]]);
    if (text === shown) return;
    shown = text;
    render(store, models);
  };
  every($('models'), 4000, work);
  return { clear: () => (shown = '') };
}

function render(store, models) {
  const versions = models.flatMap((m) => (m.versions ?? []).map((v) => ({ model: m, v, state: enumWord(v.state, 'VERSION_STATE_') })));
  const broken = models.filter((m) => m.failure);
  const counts = new Map();
  for (const { state } of versions) counts.set(state, (counts.get(state) ?? 0) + 1);
  const parts = ['ready', 'loading', 'failed', 'unloading'].filter((s) => counts.get(s)).map((s) => `${counts.get(s)} ${s}`);
  say($('models-title'), models.length === 0 ? 'This server has no model yet' : `${plural(models.length, 'model')}, ${plural(versions.length, 'version')}: ${list(parts)}`);
  // What needs a person comes first.
  const rank = { failed: 0, loading: 1, unloading: 2, ready: 3 };
  const order = [...versions].sort((a, b) => (rank[a.state] ?? 9) - (rank[b.state] ?? 9));
  const rows = [...broken.map(failedModel), ...order.slice(0, most).map((x) => row(store, x))];
  if (rows.length === 0) {
    $('models-body').replaceChildren(el('p.sub', null, 'Put a folder such as mymodel/1/model.onnx into the model repository: it is found and loaded by itself.'));
    return;
  }
  $('models-body').replaceChildren(
    el('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Models' }, el('table', null,
      el('thead', null, el('tr', null, ...['version', 'state', 'traffic', 'batching', 'on', 'memory', 'files'].map((h) => el(h === 'memory' ? 'th.num' : 'th', { scope: 'col' }, h)))), el('tbody', null, ...rows))),
    el('p.said', null, order.length > most ? `and ${plural(order.length - most, 'more version')}` : ''));
}

function failedModel(m) {
  return el('tr', null, el('td.nowrap', { title: m.name }, short(m.name, 36)), el('td.bad', { colspan: '6' }, `▲ ${m.failure}`));
}

function row(store, { model, v, state }) {
  const label = `${model.name} v${v.version}`;
  const live = (store.present ?? []).find((x) => x.label === label);
  const labels = Object.entries(model.labels ?? {}).filter(([, n]) => String(n) === String(v.version)).map(([l]) => l);
  const use = [live?.slot, ...labels].filter(Boolean).join(', ') || (store.shadows?.has(label) ? 'shadow' : '');
  const replicas = v.replicas ?? [];
  const memory = replicas.reduce((n, r) => n + Number(r.deviceMemoryBytes ?? 0), 0);
  const trouble = v.failure || v.stalled || v.scarcity || (v.crashes?.latestDeath && `died: ${v.crashes.latestDeath}`);
  return el('tr', null,
    el('td.nowrap', { title: label }, swatch(colour(label)), short(label, 36), v.steps?.length ? el('div.sub', { title: steps(v.steps) }, short(steps(v.steps), 48)) : null),
    el(`td.nowrap${state === 'failed' ? '.bad' : ''}`, null, `${signs[state] ?? ''} ${state}`, loading(v.loading, state)),
    el('td', null, use),
    el('td.why', null, trouble ? el('span.bad', null, trouble) : batching(v.batching), v.keptInputs?.length ? el('div.sub', null, episodes(model)) : null),
    el('td.nowrap', null, list(replicas.map((r) => `${r.device}${r.restarting ? ' (restarting)' : ''}`)) || v.device || ''),
    el('td.num', null, memory > 0 ? bytes(memory) : ''),
    el('td.nowrap', { title: v.digest ?? false }, v.digest ? v.digest.slice(0, 8) : ''));
}

// loading says how far the load of a version is, or that of its changed files.
function loading(l, state) {
  if (!l) return null;
  const done = Number(l.done ?? 0);
  const total = Number(l.total ?? 0);
  const stage = enumWord(l.stage, 'LOAD_STAGE_');
  const amount = total === 0 ? '' : stage === 'copying' ? `${bytes(done)} of ${bytes(total)}` : `run ${done} of up to ${total}`;
  const bar = el('div');
  bar.style.width = `${total > 0 ? Math.min(100, (100 * done) / total) : 0}%`;
  return el('div.sub', null, `${state === 'ready' ? 'changed files: ' : ''}${stage} ${amount}`, total > 0 ? el('div.gauge', { 'aria-hidden': 'true' }, bar) : null);
}

// episodes says how many of a model's the server keeps the state of.
const episodes = (m) => `keeps state: ${plural(Number(m.liveEpisodes ?? 0), 'episode')} of the model, ${bytes(Number(m.stateBytes ?? 0))}`;

function batching(b) {
  if (!b) return '';
  if (!b.batched) return `alone: ${b.reason ?? ''}`;
  const why = b.reason || proofs[enumWord(b.proof, 'BATCHING_PROOF_')] || '';
  return `up to ${b.maxBatchSize ?? 1} rows${why ? `: ${why}` : ''}`;
}
