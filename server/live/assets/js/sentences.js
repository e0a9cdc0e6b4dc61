// What the page says of the server: answers to the questions that people come with.
import { blame } from './blame.js';
import { ago, count, list, ms, percent, plural } from './format.js';
import { greed } from './greed.js';
import { starved } from './verdicts.js';
import { end } from './words.js';

// taken is the part of the last seconds in which lanes of a device had a batch by the clock on the wall: much more than the part
// in which it was busy where batches wait for the processor.
export function taken(store, device) {
  const from = store.now - 5000;
  const b = store.batches;
  let time = 0;
  for (let p = b.firstFrom(b.end, from); p < b.next; p++) {
    const i = p & b.mask;
    if (b.lane[i] >= device.firstLane && b.lane[i] < device.firstLane + device.lanes) time += b.end[i] - Math.max(b.start[i], from);
  }
  for (const r of store.running) if (r.lane >= device.firstLane && r.lane < device.firstLane + device.lanes) time += store.now - Math.max(r.startMs, from);
  return time / 5000 / device.lanes;
}

// slowed is how many times as long batches of a device take as they use it: 1 where nothing else has it.
export const slowed = (store, device) => {
  const [wall, busy] = [taken(store, device), device.busyShare];
  return wall > busy + 0.15 ? wall / Math.max(0.01, busy) : 1;
};

// waiting counts the requests that wait. Copies for a shadow, to which nothing is due, may wait as long as they like.
export const waiting = (store) => (store.present ?? []).reduce((n, v) => n + (v.entitledShare > 0 ? v.waiting : 0), 0);

// most says who uses the devices most.
export function most(store) {
  const versions = (store.present ?? []).filter((v) => v.share > 0.0005);
  if (versions.length === 0) return { text: 'No version uses a device now.', short: 'None' };
  const best = versions.reduce((a, b) => (b.share > a.share ? b : a));
  const device = store.devices.find((d) => d.name === best.device);
  const next = versions.filter((v) => v !== best && v.device === best.device).sort((a, b) => b.share - a.share)[0];
  return { version: best, short: `${best.label}: ${percent(best.share)} of ${best.device}`,
    text: `${device ? `${best.device} is ${percent(device.busyShare)} busy${slowed(store, device) > 2 ? ' with batches, and slow: other programs take its time' : ''}.` : ''}${next ? ` Next is ${next.label} with ${percent(next.share)}.` : ''}` };
}

// few is the part of a version's requests that may be late or lost without anybody being wronged: targets are for the p99.
const few = 0.01;

// wronged says whether anybody gets less than its due, and who asks for more than that.
export function wronged(store) {
  const versions = store.present ?? [];
  for (const d of store.devices) {
    const factor = slowed(store, d);
    for (const v of versions) if (v.device === d.name) Object.assign(v, { slowed: factor, lag: d.lagBoundMs > 0 ? d.lagMs / d.lagBoundMs : 0 });
  }
  const ends = lastMinute(store);
  const hurt = ends.filter((e) => e.late + e.lost > few * e.all).sort((a, b) => (b.late + b.lost) / b.all - (a.late + a.lost) / a.all);
  for (const e of hurt) e.greed = greed(store, e.version);
  const greedy = hurt.filter((e) => 2 * e.greed.own > e.late + e.lost);
  for (const v of store.versions) v.greedy = greedy.some((e) => e.version === v && e.greed.now);
  const innocent = hurt.filter((e) => !greedy.includes(e));
  const more = greedy.length > 0 ? ` ${tooMuch(greedy[0])}` : '';
  const hungry = versions.filter((v) => starved(v) && !store.shadows?.has(v.label));
  if (hungry.length > 0) {
    const v = hungry[0];
    return { bad: true, version: v, short: `Yes, ${list(hungry.slice(0, 3).map((h) => h.label))}: below its share`, text: `${v.label} gets ${percent(v.share)} of the time, ${percent(v.entitledShare)} are due to it, and more of its requests wait than its batches take.${more}` };
  }
  if (innocent.length > 0) {
    const e = innocent[0];
    const others = list(innocent.slice(1, 4).map((o) => `${o.version.label} (${percent((o.late + o.lost) / o.all, 1)})`));
    return { bad: true, version: e.version, short: `Yes, ${e.version.label}: ${percent((e.late + e.lost) / e.all, 1)} late or lost`,
      text: `Of ${about(e.all, e)} requests ${lately(store)} ${told(e)}.${others ? ` Also ${others}.` : ''}${more}${e.version.slowed > 1.5 ? ` ${e.version.device} is slow now: batches take ${e.version.slowed.toFixed(1)}\u00d7 as long as they use it, beside other programs.` : more ? '' : ' Shares of the device are fair.'}` };
  }
  if (greedy.length > 0) {
    const e = greedy[0];
    return { version: e.version, short: `No: ${list(greedy.slice(0, 2).map((g) => g.version.label))} ${e.greed.now ? (greedy.length > 1 ? 'ask' : 'asks') : 'asked'} for more than ${greedy.length > 1 ? 'their shares' : 'its share'}`, text: `${tooMuch(e)} Of ${about(e.all, e)} requests ${lately(store)} ${told(e)}.` };
  }
  if (versions.length === 0) return { short: 'No, nobody', text: 'There is no version yet.' };
  const [all, late, lost] = ['all', 'late', 'lost'].map((name) => ends.reduce((n, e) => n + e[name], 0));
  if (all === 0) return { short: 'No, nobody', text: `No version was asked ${lately(store)}.` };
  const some = ends.find((e) => e.some) ?? {};
  return { short: 'No, nobody', text: `All that had work waiting got their shares. ${late + lost > 0 ? `Of no version was more than one request in a hundred late or lost: ${about(late, some)} and ${about(lost, some)} of ${about(all, some)}` : `None of ${some.some ? 'about ' : ''}${plural(all, 'request')} was late or lost`} ${lately(store)}.` };
}

// tooMuch says by how much a version asks for more than its share.
function tooMuch({ version: v, greed: g }) {
  return `${v.label} asked for ${percent(g.asked)} of ${v.device}${v.due > 0.995 ? ', which is more than there is' : `, and ${percent(v.due)} are due to it`}.`;
}

const about = (n, { some }) => `${some ? 'about ' : ''}${count(n)}`;

const lately = (store) => (store.now < 60000 ? 'since the start' : 'in the last minute');

const lostWords = [[end.refused, 'refused'], [end.expired, 'ran out of time'], [end.failed, 'failed']];

const told = (e) => list([...(e.late > 0 ? [`${about(e.late, e)} were answered late`] : []), ...lostWords.filter(([kind]) => e.ends[kind] > 0).map(([kind, word]) => `${about(e.ends[kind], e)} ${word}`)]);

// lastMinute counts requests of the last minute by version and end, those with most late or lost ones first; without those that
// failed by what their callers did. some: others were left out, for which these stand.
function lastMinute(store) {
  const r = store.requests;
  const counts = store.versions.map((version) => ({ version, ends: new Float64Array(8), all: 0, late: 0, lost: 0, some: false }));
  for (let p = r.firstFrom(r.end, store.now - 60000); p < r.next; p++) {
    const i = p & r.mask;
    if (r.version[i] === 0 || r.own[i] === 1) continue;
    const c = counts[r.version[i] - 1];
    c.ends[r.ends[i]] += r.stands[i];
    c.some ||= r.stands[i] > 1;
  }
  for (const c of counts) {
    c.late = c.ends[end.late];
    c.lost = lostWords.reduce((n, [kind]) => n + c.ends[kind], 0);
    c.all = c.ends[end.answered] + c.late + c.lost;
  }
  return counts.filter((c) => c.all > 0).sort((a, b) => b.late + b.lost - a.late - a.lost);
}

// lastLate says which request was late last, and because of what; bad: it is one of many.
export function lastLate(store, bad) {
  const r = store.requests;
  if (store.lastLate < r.first || r.length === 0) return none(store);
  const i = store.lastLate & r.mask;
  const v = store.versions[r.version[i] - 1];
  const why = blame(store, store.lastLate);
  const holder = why.holder >= 0 ? store.versions[why.holder] : null;
  const short = `${store.names.get(r.number[i]) ?? `#${r.number[i]}`}, by ${ms(why.over)}`;
  const when = ago(store.now - r.end[i]);
  const of = `A request to ${v.label} with ${ms(r.target[i])} to be answered: `;
  let text = `${of}it waited ${ms(why.wait)} for its batch to start (${when}).`;
  if (why.run > why.wait) text = `${of}its own batch ran for ${ms(why.run)}, after it had waited ${ms(why.wait)} (${when}).`;
  else if (holder && why.holder !== why.own) text = `${of}${holder.label} held ${v.device} for ${ms(why.held)} of the ${ms(why.wait)} that it waited (${when}).`;
  else if (holder) text = `${of}earlier requests of the same version held ${v.device} for ${ms(why.held)} of the ${ms(why.wait)} that it waited (${when}).`;
  return { bad, version: v, short, text, number: r.number[i], place: store.lastLate };
}

// none says that no answer was late, as far as that is known.
function none({ requests: r }) {
  let [answered, some] = [0, false];
  for (let p = r.first; p < r.next; p++) {
    answered += r.ends[p & r.mask] <= end.late ? r.stands[p & r.mask] : 0;
    some ||= r.stands[p & r.mask] > 1;
  }
  if (answered === 0) return { short: 'None', text: 'No request was answered in the last minute.' };
  return { short: some ? 'None of those drawn' : 'None in the last minute', text: `${about(answered, { some })} requests were answered, ${some ? 'those drawn ' : ''}by their targets.` };
}
