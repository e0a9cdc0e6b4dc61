// The figures on top: what the server does now.
import { $, el, say } from './dom.js';
import { count, ms, percent, rate } from './format.js';
import { waiting } from './sentences.js';
import { end } from './words.js';

const names = ['answers', 'p50', 'p99', 'errors', 'waiting', 'busy'];

// headline gives the figures, and which device is busiest; null where something is not known yet.
export function headline(store) {
  const rates = store.rates;
  const ended = rates ? rates.answers + rates.errors : 0;
  const [p50, p99] = quantiles(store, [0.5, 0.99]);
  const device = store.devices.reduce((a, b) => (a && a.busyShare >= b.busyShare ? a : b), null);
  return { seconds: rates?.seconds ?? 0, answers: rates ? rates.answers : null, p50, p99, errors: rates ? (ended > 0 ? rates.errors / ended : 0) : null, waiting: waiting(store),
    busy: device ? device.busyShare : null, device: device?.name ?? '' };
}

// quantiles are of the times of the requests that were answered in the latest seconds, which all weigh as many as they stand for.
function quantiles(store, parts) {
  const r = store.requests;
  const times = [];
  let all = 0;
  for (let p = r.firstFrom(r.end, store.now - store.window); p < r.next; p++) {
    const i = p & r.mask;
    if (r.ends[i] > end.late) continue;
    times.push([r.end[i] - r.arrival[i], r.stands[i]]);
    all += r.stands[i];
  }
  times.sort((a, b) => a[0] - b[0]);
  return parts.map((part) => {
    let left = part * all;
    return times.find(([, n]) => (left -= n) <= 0)?.[0] ?? times.at(-1)?.[0] ?? null;
  });
}

export function startHeadline(store) {
  const boxes = {};
  for (const name of names) {
    boxes[name] = { label: el('dt', null, name), value: el('dd', null, '–') };
    $('headline').append(el('div', null, boxes[name].value, boxes[name].label));
  }
  say(boxes.answers.label, 'answers a second');
  return () => {
    const h = headline(store);
    const figures = { answers: rate, p50: ms, p99: ms, errors: (x) => percent(x, 1), waiting: count, busy: percent };
    for (const [name, text] of Object.entries(figures)) say(boxes[name].value, h[name] === null ? '–' : text(h[name]));
    say(boxes.busy.label, h.device === '' ? 'busy' : `of ${h.device} busy`);
    boxes.errors.value.classList.toggle('bad', h.errors > 0.01);
  };
}
