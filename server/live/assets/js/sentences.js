// What the page says of the server: answers to the questions that people come with.
import { blame } from './blame.js';
import { ago, list, ms, percent, plural } from './format.js';
import { starved } from './verdicts.js';
import { end } from './words.js';

// most says who uses the devices most.
export function most(store) {
  const versions = (store.present ?? []).filter((v) => v.share > 0.0005);
  if (versions.length === 0) return { text: 'No version uses a device now.', short: 'Nobody' };
  const best = versions.reduce((a, b) => (b.share > a.share ? b : a));
  const device = store.devices.find((d) => d.name === best.device);
  const next = versions.filter((v) => v !== best && v.device === best.device).sort((a, b) => b.share - a.share)[0];
  return { version: best, short: `${best.label}: ${percent(best.share)} of ${best.device}`,
    text: `${device ? `${best.device} is ${percent(device.busyShare)} busy.` : ''}${next ? ` Next is ${next.label} with ${percent(next.share)}.` : ''}` };
}

// wronged says whether anybody gets less than its due.
export function wronged(store) {
  const versions = store.present ?? [];
  const hungry = versions.filter(starved);
  const late = lateCounts(store);
  if (hungry.length > 0) {
    const v = hungry[0];
    return { bad: true, version: v, short: `Yes: ${list(hungry.map((h) => h.label))}`, text: `${v.label} gets ${percent(v.share)} of the ${percent(v.entitledShare)} that it may have, while its requests wait.` };
  }
  const fair = 'All versions that had work waiting got their shares.';
  if (late.length > 0) {
    const [v, n] = late[0];
    return { bad: true, version: v, short: `${v.label}: ${plural(n, 'late answer')} in the last minute`, text: `${fair}${late.length > 1 ? ` Also late: ${list(late.slice(1, 4).map(([o, m]) => `${o.label} (${m})`))}.` : ' Nobody else was late.'}` };
  }
  if (versions.length === 0) return { short: 'Nobody', text: 'There is no version yet.' };
  return { short: 'Nobody', text: `${fair} None was late in the last minute.` };
}

function lateCounts(store) {
  const r = store.requests;
  const counts = new Map();
  for (let p = r.first; p < r.next; p++) {
    const i = p & r.mask;
    if (r.ends[i] === end.late && r.version[i] > 0) counts.set(r.version[i] - 1, (counts.get(r.version[i] - 1) ?? 0) + 1);
  }
  return [...counts].map(([id, n]) => [store.versions[id], n]).sort((a, b) => b[1] - a[1]);
}

// lastLate says which request was late last, and because of what.
export function lastLate(store) {
  const r = store.requests;
  if (store.lastLate < r.first || r.length === 0) return { short: 'None in the last minute', text: 'Every request was answered by its target.' };
  const i = store.lastLate & r.mask;
  const v = store.versions[r.version[i] - 1];
  const why = blame(store, store.lastLate);
  const holder = why.holder >= 0 ? store.versions[why.holder] : null;
  const short = `${v.label} #${r.number[i]}, by ${ms(why.over)}`;
  const when = `${ago(store.now - r.end[i])}`;
  let text = `It waited ${ms(why.wait)} for its batch to start (${when}).`;
  if (why.run > r.target[i]) text = `Because its own batch ran for ${ms(why.run)}, longer than its target (${when}).`;
  else if (holder && why.holder !== why.own) text = `Because ${holder.label} had ${v.device} for ${ms(why.held)} while it waited (${when}).`;
  else if (holder) text = `Because earlier requests of ${v.label} itself had ${v.device} for ${ms(why.held)} (${when}).`;
  return { bad: true, version: v, short, text, number: r.number[i], place: store.lastLate };
}
