// Late and lost requests: how many and why, and the latest of them, each with its story.
import { call, every } from './api.js';
import { $, el, say, swatch } from './dom.js';
import { clock, count, ms, plural, short } from './format.js';
import { colour } from './colour.js';
import { explain } from './story.js';
import { endOf, endWord, reasonWords } from './words.js';

const rows = 10;

export function startLosses(store) {
  const body = $('losses-body');
  const work = async () => {
    const answer = await call('ListRequests', { limit: 60 });
    if (answer) render(body, store, answer);
  };
  every($('losses'), 1000, work);
  return { clear: work };
}

function render(body, store, answer) {
  const minute = answer.inLastMinute ?? 0;
  const sum = (...names) => Object.values(store.totals).reduce((n, t) => n + names.reduce((m, name) => m + (t[name] ?? 0), 0), 0);
  const [offered, gone] = [sum('offered'), sum('refused', 'expired', 'cancelled', 'failed')];
  const lost = new Map();
  let late = 0;
  for (const v of store.present ?? []) {
    late += v.totals.late;
    for (const [reason, n] of Object.entries(v.totals.lost)) lost.set(reason, (lost.get(reason) ?? 0) + n);
  }
  const unknown = store.totals['']?.refused ?? 0;
  if (unknown > 0) lost.set('MODEL_NOT_FOUND', (lost.get('MODEL_NOT_FOUND') ?? 0) + unknown);
  const early = gone - [...lost.values()].reduce((a, b) => a + b, 0);
  if (early > 0) lost.set('before a version was chosen, or of one that rests', early);
  say($('losses-title'), minute === 0 ? 'No request was late or lost in the last minute' : `${plural(minute, 'request')} late or lost in the last minute`);
  const reasons = [...(late > 0 ? [['answered late', late]] : []), ...[...lost].map(([r, n]) => [reasonWords(r), n])].sort((a, b) => b[1] - a[1]).slice(0, 7);
  const most = Math.max(1, ...reasons.map(([, n]) => n));
  const focused = document.activeElement?.dataset?.request;
  body.replaceChildren(
    el('p.sub', null, `Since the start of the server, as the bars show: ${count(late)} answered late and ${count(gone)} not answered, of ${count(offered)}.`),
    el('div.reasons', null, ...reasons.flatMap(([reason, n]) => {
      const bar = el('div.reason-bar', { 'aria-hidden': 'true' });
      bar.style.width = `${(100 * n) / most}%`;
      return [el('span', null, reason), el('div', null, bar), el('span', null, count(n))];
    })),
    table(store, answer));
  if (answer.forgotten) body.append(el('p.said', null, `${plural(answer.forgotten, 'more request')} of the last minute are no longer remembered.`));
  if (focused) body.querySelector(`[data-request="${CSS.escape(focused)}"]`)?.focus();
}

// nameOf is what the caller calls a request: its name, its episode with the step, or both.
function nameOf(c, i) {
  const step = c.episode?.[i] ? ` ${c.episode[i]}${Number(c.step?.[i] ?? 0) > 0 ? ` #${c.step[i]}` : ''}` : '';
  return c.id?.[i] ? ` ${c.id[i]}${step && ` (${step.trim()})`}` : step;
}

function table(store, answer) {
  const c = answer.requests ?? {};
  const n = Math.min(rows, c.number?.length ?? 0);
  if (n === 0) return el('span');
  const lines = [];
  for (let i = 0; i < n; i++) {
    const v = c.version[i] > 0 ? answer.versions?.[c.version[i] - 1] : null;
    const label = v ? `${v.model} v${v.version ?? 0}` : 'no such model';
    const end = endOf(c.end[i]);
    const took = Math.max(0, c.endMs[i] - c.arrivalMs[i]);
    const why = c.reason?.[i] ? reasonWords(c.reason[i]) : c.targetMs?.[i] > 0 ? `${ms(took - c.targetMs[i])} after its target` : '';
    lines.push(el('tr', null, el('td.nowrap', { title: label }, v ? swatch(colour(label)) : null, short(label, 36)),
      el('td', null, el('button.link', { type: 'button', 'data-request': `#${c.number[i]}`, onclick: () => explain(`#${c.number[i]}`) }, `#${c.number[i]}`), nameOf(c, i)),
      el('td.nowrap', null, endWord[end]), el('td', null, why), el('td.num', null, ms(took)), el('td.num', null, clock(store.began + c.endMs[i]))));
  }
  return el('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'The latest late or lost requests' }, el('table', null,
    el('thead', null, el('tr', null, ...['version', 'request', 'end', 'how', 'took', 'when'].map((h) => el(h === 'took' || h === 'when' ? 'th.num' : 'th', { scope: 'col' }, h)))), el('tbody', null, ...lines)));
}
