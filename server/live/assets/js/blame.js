// Why a request was late: who had its device while it waited.

// blame tells, for the request at that place: {wait, run, over, held, own, holder, batch}: times in milliseconds, the version
// that held the device longest, and the place of its longest batch, or -1.
export function blame(store, place) {
  const r = store.requests;
  const at = place & r.mask;
  const arrival = r.arrival[at];
  const started = r.start[at] || r.end[at];
  const wait = started - arrival;
  const out = { wait, run: r.start[at] ? r.end[at] - r.start[at] : 0, over: r.target[at] > 0 ? r.end[at] - arrival - r.target[at] : 0, held: 0, holder: -1, batch: -1, own: r.version[at] - 1 };
  if (out.own < 0) return out;
  const device = store.devices.find((d) => d.name === store.versions[out.own].device);
  if (!device) return out;
  const b = store.batches;
  const held = new Map();
  const longest = new Map();
  for (let p = b.firstFrom(b.end, arrival); p < b.next; p++) {
    const i = p & b.mask;
    if (b.end[i] > started + store.longestBatch) break;
    if (b.start[i] >= started || b.lane[i] < device.firstLane || b.lane[i] >= device.firstLane + device.lanes) continue;
    const time = Math.min(b.end[i], started) - Math.max(b.start[i], arrival);
    const version = b.version[i];
    held.set(version, (held.get(version) ?? 0) + time);
    if (time > (longest.get(version)?.time ?? 0)) longest.set(version, { time, place: p });
  }
  for (const [version, time] of held) {
    if (time <= out.held) continue;
    out.held = time;
    out.holder = version;
    out.batch = longest.get(version).place;
  }
  return out;
}
