// The requests whose answers differ most, as small multiples: the live answer solid, the shadow's dashed.
import { el } from './dom.js';
import { clock, plural } from './format.js';
import { path, plot } from './plot.js';
import { explain } from './story.js';

export function worstRequests(output, summary) {
  const worst = output?.worst ?? [];
  if (worst.length === 0) {
    return output?.worstWithheld ? el('p.sub', null, 'The worst requests hold callers\u2019 data: only those who may operate the model see them.') : el('span');
  }
  const grid = el('div.multiples.small');
  const node = el('details', { id: 'worst' }, el('summary', null, `The ${plural(worst.length, 'worst request')}`), grid);
  node.addEventListener('toggle', () => {
    if (!node.open || grid.childElementCount > 0) return;
    for (const w of worst) grid.append(one(w, summary, output));
  });
  return node;
}

// place names the element, or the group of elements, that differs.
function place(w, output) {
  const at = Number(w.element ?? 0);
  const e = output.fingerprint?.elements?.find((x) => at >= Number(x.first ?? 0) && at < Number(x.first ?? 0) + Number(x.count ?? 1));
  return e?.name || `element ${at}`;
}

function one(w, summary, output) {
  const chart = el('div.chunk');
  const name = w.requestId || clock(Date.parse(w.at));
  const node = el('figure', null, el('figcaption', null, el('button.link', { type: 'button', onclick: () => explain(w.requestId), disabled: !w.requestId }, name), ` ${place(w, output)}, by ${Number(w.absolute ?? 0).toPrecision(2)}`), chart);
  const all = [...(w.primary ?? []), ...(w.shadow ?? [])].map(Number).filter(Number.isFinite);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const label = `${name}: answer of v${summary.primaryVersion}, and of the shadow v${summary.shadowVersion}`;
  queueMicrotask(() => plot(chart, 72, label, (add, width) => {
    const points = (values) => values.map((v, i) => [4 + ((width - 8) * i) / Math.max(1, values.length - 1), 66 - (60 * (Number(v) - low)) / (high - low || 1)]);
    const at = Number(w.element ?? 0) - Number(w.first ?? 0);
    add('line', { class: 'limit', x1: points(w.primary)[at]?.[0] ?? 0, x2: points(w.primary)[at]?.[0] ?? 0, y1: 2, y2: 70 });
    add('path', { class: 'live-line', d: path(points(w.primary)) });
    add('path', { class: 'dashed', d: path(points(w.shadow)) });
  }));
  return node;
}
