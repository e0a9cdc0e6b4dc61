// What a block or a request says of itself.
import { el, swatch } from '../dom.js';
import { ms, plural } from '../format.js';
import { blame } from '../blame.js';
import { end, endWord, flag, flush, reasonWords, rule } from '../words.js';

// batchLines are the title of a batch and what is to be said of it.
export function batchLines(store, place) {
  const b = store.batches;
  const i = place & b.mask;
  const v = store.versions[b.version[i]];
  const flags = b.flags[i];
  const kind = flags & flag.proof ? ' (proof or warm-up)' : flags & flag.background ? ' (in the background)' : '';
  const padding = b.size[i] - b.rows[i];
  const lines = [`${plural(b.rows[i], 'row')} of ${plural(b.requests[i], 'request')}${padding > 0 ? `, and ${padding} of padding` : ''}`];
  if (b.expected[i] > 0) {
    const off = b.device[i] / b.expected[i] - 1;
    lines.push(`${ms(b.device[i])} measured, ${ms(b.expected[i])} predicted (${off < 0 ? '−' : '+'}${Math.abs(off * 100).toFixed(0)} %)`);
  } else lines.push(`${ms(b.device[i])} measured, nothing predicted`);
  if (b.requests[i] > 1) lines.push(`charge: ${ms(b.device[i] / b.requests[i])} for each request`);
  if (flush[b.reason[i]]?.[1]) lines.push(`It started because ${flush[b.reason[i]][1]}.`);
  if (rule[b.rule[i]]) lines.push(`It was its turn because ${rule[b.rule[i]]}.`);
  if (b.passed[i] > 0) lines.push(`${store.versions[b.passed[i] - 1].label} had urgent work and was passed over.`);
  if (b.left[i] > 0) lines.push(`${plural(b.left[i], 'row')} had to go on waiting.`);
  if (b.slack[i] < 0) lines.push(`It started ${ms(-b.slack[i])} too late for its first target.`);
  if (flags & flag.late) lines.push('A request of it missed its target.');
  if (flags & flag.failed) lines.push('It failed.');
  return { version: v, title: `${v.label}, batch #${b.number[i]}${kind}`, lines, bad: (flags & 3) !== 0 };
}

export function requestLines(store, place) {
  const r = store.requests;
  const i = place & r.mask;
  const v = store.versions[r.version[i] - 1];
  const why = blame(store, place);
  const lines = [`waited ${ms(why.wait)}${why.run > 0 ? `, ran ${ms(why.run)}` : ''}`];
  if (r.target[i] > 0 && r.ends[i] <= end.late) lines.push(why.over > 0 ? `${ms(why.over)} later than its target of ${ms(r.target[i])}` : `${ms(-why.over)} before its target of ${ms(r.target[i])}`);
  if (r.ends[i] === end.late && why.holder >= 0) lines.push(because(store, why));
  const id = store.names.get(r.number[i]);
  return { version: v, title: `${v?.label ?? 'a request'} #${r.number[i]} ${endWord[r.ends[i]]}${id ? ` (${id})` : ''}`, lines, bad: r.ends[i] > end.answered };
}

// because says who is to blame for a wait.
export function because(store, why) {
  const holder = store.versions[why.holder];
  if (why.holder === why.own) return `Its own version had the device for ${ms(why.held)} of its wait.`;
  const number = why.batch >= 0 ? ` (batch #${store.batches.number[why.batch & store.batches.mask]})` : '';
  return `${holder.label} had the device for ${ms(why.held)} of its wait${number}.`;
}

export function cause(reason) {
  return reason === '' ? '' : `: ${reasonWords(reason)}`;
}

// card makes the element of such lines.
export function fillCard(node, { version, title, lines, bad }) {
  const head = el('strong');
  if (version) head.append(swatch(version.colour));
  head.append(title);
  node.replaceChildren(head, ...lines.map((line) => el('span', null, line)));
  node.classList.toggle('bad', bad);
}
