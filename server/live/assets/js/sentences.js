// What the page says of the server: answers to the questions that people come with.
import { blame } from './blame.js';
import { ago, list, ms, percent, plural } from './format.js';
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
    return { bad: true, version: v, short: `Yes, ${list(hungry.slice(0, 3).map((h) => h.label))}: below its share`, text: `${v.label} gets ${percent(v.share)} of the time, ${percent(v.entitledShare)} are due to it, and more of its requests wait than its batches take.` };
  }
  const fair = 'Everyone got the share due to it.';
  if (late.length > 0) {
    const [v, n, all] = late[0];
    return { bad: true, version: v, short: `Yes, ${v.label}: ${plural(n, 'late answer')}`,
      text: `${percent(n / all, 1)} of its answers in the last minute${late.length > 1 ? `; also ${list(late.slice(1, 4).map(([o, m]) => `${o.label} (${m})`))}` : ''}. ${fair}` };
  }
  if (versions.length === 0) return { short: 'No', text: 'There is no version yet.' };
  return { short: 'No', text: 'All that had work waiting got their shares, and no answer was late in the last minute.' };
}

// lateCounts lists version, late answers and all answers of the last minute, those with most late ones first.
function lateCounts(store) {
  const r = store.requests;
  const late = new Uint32Array(store.versions.length);
  const answered = new Uint32Array(store.versions.length);
  for (let p = r.firstFrom(r.end, store.now - 60000); p < r.next; p++) {
    const i = p & r.mask;
    if (r.version[i] === 0 || r.ends[i] > end.late) continue;
    answered[r.version[i] - 1]++;
    if (r.ends[i] === end.late) late[r.version[i] - 1]++;
  }
  return [...late].map((n, id) => [store.versions[id], n, answered[id]]).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
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
