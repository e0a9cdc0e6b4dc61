// Who asks for more than its share: requests of a version that are late although it has all that is due to it are late because
// of it alone.

const seconds = 60;

// greed says how many of the last minute's late or lost requests of a version came while it had asked for more device time than
// its share, for which part of its device it asked in the worst second, and whether it does so now: as if it had its share, and
// nothing else, to itself.
export function greed(store, version) {
  const from = store.now - seconds * 1000;
  const lanes = store.devices.find((d) => d.name === version.device)?.lanes ?? 0;
  const cost = costOf(store, version, from);
  if (version.due === 0 || lanes === 0 || cost === 0) return { own: 0, asked: 0, now: false };
  const asked = new Float64Array(seconds + 1); // ms of device time, by second of arrival
  const troubled = new Float64Array(seconds + 1);
  const r = store.requests;
  for (let p = r.firstFrom(r.end, from); p < r.next; p++) {
    const i = p & r.mask;
    if (r.version[i] !== version.id + 1 || r.own[i] === 1) continue;
    const second = Math.min(seconds, Math.max(0, Math.floor((r.arrival[i] - from) / 1000)));
    asked[second] += cost * r.stands[i];
    if (r.ends[i] > 1) troubled[second] += r.stands[i];
  }
  const due = 1000 * lanes * version.due;
  let [queue, own] = [0, 0];
  for (let s = 0; s <= seconds; s++) {
    queue = Math.max(0, queue + asked[s] - due);
    if (queue > 0) own += troubled[s];
  }
  return { own, asked: Math.max(...asked) / 1000 / lanes, now: queue > 0 };
}

// costOf is the device time that a request of a version took lately, in milliseconds. Full batches are the cheapest: what is asked
// for is at least that.
function costOf(store, version, from) {
  const b = store.batches;
  let [time, requests] = [0, 0];
  for (let p = b.firstFrom(b.end, from); p < b.next; p++) {
    const i = p & b.mask;
    if (b.version[i] !== version.id) continue;
    time += b.device[i];
    requests += b.requests[i];
  }
  return requests > 0 ? time / requests : 0;
}
