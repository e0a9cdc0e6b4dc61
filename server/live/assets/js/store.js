// What the page knows: the versions, and rings of the batches and requests of the last minute. Versions get an id that stays
// the same while their place in the messages changes.
import { Ring } from './ring.js';
import { colour, ink } from './colour.js';
import { end, ofCaller } from './words.js';

const minute = 60000;
const most = 1 << 18; // rows of each ring; at 4,000 batches a second that is a minute
const samplesKept = 480; // of lag, four a second

const batchColumns = { number: Uint32Array, version: Uint16Array, lane: Uint16Array, start: Float64Array, end: Float64Array, device: Float32Array,
  expected: Float32Array, requests: Uint32Array, rows: Uint32Array, size: Uint32Array, reason: Uint8Array, rule: Uint8Array, slack: Float32Array,
  demanding: Uint16Array, left: Uint32Array, passed: Uint16Array, flags: Uint8Array, firstArrival: Float64Array };

const requestColumns = { number: Uint32Array, version: Uint16Array, arrival: Float64Array, start: Float64Array, end: Float64Array, target: Float32Array,
  batch: Uint32Array, ends: Uint8Array, rank: Uint16Array, stands: Float32Array, own: Uint8Array };

export class Store {
  constructor() {
    this.batches = new Ring(most, batchColumns);
    this.requests = new Ring(most, requestColumns);
    this.places = new Float64Array(most); // of batches, by number: place + 1
    this.run = '';
    this.hold = false;
    this.clear();
  }

  clear() {
    this.batches.clear();
    this.requests.clear();
    this.places.fill(0);
    this.versions = [];
    this.byKey = new Map();
    this.devices = [];
    this.running = [];
    this.samples = [];
    this.totals = {};
    this.names = new Map(); // callers' names of requests that were late or lost, by number
    this.longestBatch = 0;
    this.longestRequest = 0;
    this.lastLate = -1;
    this.now = 0;
    this.leftOut = 0;
    this.sparse = -Infinity; // when batches or requests were last missing
  }

  // take adds a message; first says that it is the first of a connection, which tells the last minute again.
  take(a, first) {
    const restarted = a.run !== this.run && this.run !== '';
    if (first || restarted) this.clear();
    const gap = !first && !restarted && (a.fromMs ?? 0) > this.now + 1; // messages that came too fast for this page
    this.run = a.run;
    this.began = Date.parse(a.began) || 0;
    this.now = a.nowMs ?? 0;
    this.window = a.windowMs ?? 0;
    this.devices = (a.devices ?? []).map((d) => ({ lanes: 0, firstLane: 0, busySeconds: 0, busyShare: 0, lagMs: 0, lagBoundMs: 0, workMs: 0, ...d }));
    this.totals = a.totals ?? {};
    const left = (a.batchesLeftOut ?? 0) + (a.requestsLeftOut ?? 0);
    this.leftOut += left;
    if (gap || left > 0) this.sparse = this.now;
    const ids = (a.versions ?? []).map((v) => this.identify(v));
    this.present = ids.map((id) => this.versions[id]);
    this.takeBatches(a.batches ?? {}, ids);
    this.takeRequests(a.requests ?? {}, ids, a.requestsLeftOut ?? 0);
    this.running = (a.running ?? []).map((r) => ({ lane: 0, rows: 0, size: 0, expectedMs: 0, ...r, version: ids[r.version ?? 0] ?? 0 }));
    this.samples.push({ at: this.now, ...counts(this.totals), devices: this.devices.map((d) => ({ name: d.name, lag: d.lagMs, bound: d.lagBoundMs, busy: d.busyShare })) });
    if (this.samples.length > samplesKept) this.samples.splice(0, this.samples.length - samplesKept);
    // A picture that stands still keeps what it shows, as long as there is room.
    if (!this.hold) {
      this.batches.dropUntil(this.batches.end, this.now - minute - 1000);
      this.requests.dropUntil(this.requests.end, this.now - minute - 1000);
    }
    return restarted;
  }

  identify(v) {
    const key = `${v.model}\n${v.version}\n${v.device}`;
    let id = this.byKey.get(key);
    if (id === undefined) {
      id = this.versions.length;
      const label = `${v.model} v${v.version ?? 0}`;
      const hex = colour(label);
      this.versions.push({ id, label, colour: hex, ink: ink(hex), stripe: 0, waits: [], cut: 0, due: 0, greedy: false });
      this.byKey.set(key, id);
    }
    const entry = Object.assign(this.versions[id], blank, v);
    entry.totals = { ...noTotals, ...v.totals };
    if (entry.entitledShare > 0) entry.due = entry.entitledShare; // as it was when it last had work
    entry.waits.push(entry.waiting);
    if (entry.waits.length > 20) entry.waits.shift();
    return id;
  }

  takeBatches(c, ids) {
    const b = this.batches;
    const n = c.number?.length ?? 0;
    for (let i = 0; i < n; i++) {
      const place = b.next;
      const at = b.push();
      b.number[at] = c.number[i];
      b.version[at] = ids[c.version[i]] ?? 0;
      b.lane[at] = c.lane[i];
      b.start[at] = c.startMs[i];
      b.end[at] = c.startMs[i] + c.durationMs[i];
      b.device[at] = c.deviceMs[i];
      b.expected[at] = c.expectedMs[i];
      b.requests[at] = c.requests[i];
      b.rows[at] = c.rows[i];
      b.size[at] = c.size[i];
      b.reason[at] = c.reason[i];
      b.rule[at] = c.rule[i];
      b.slack[at] = c.slackMs[i];
      b.demanding[at] = c.demanding[i];
      b.left[at] = c.left[i];
      b.passed[at] = c.passedOver[i] ? (ids[c.passedOver[i] - 1] ?? 0) + 1 : 0;
      b.flags[at] = c.flags[i];
      b.firstArrival[at] = c.startMs[i];
      const v = this.versions[b.version[at]];
      v.cut += 0.1 * ((c.left[i] > 0 ? 1 : 0) - v.cut);
      this.places[c.number[i] & b.mask] = place + 1;
      if (c.durationMs[i] > this.longestBatch) this.longestBatch = c.durationMs[i];
    }
  }

  takeRequests(c, ids, left) {
    const r = this.requests;
    const n = c.number?.length ?? 0;
    if (n === 0) return;
    const stands = (n + left) / n; // each for so many, where some were left out
    // By batch and arrival, for the row that each gets in its lane.
    const order = Uint32Array.from({ length: n }, (_, i) => i).sort((x, y) => c.batch[x] - c.batch[y] || c.arrivalMs[x] - c.arrivalMs[y]);
    const ranks = new Uint16Array(n);
    for (let i = 1; i < n; i++) {
      const [x, y] = [order[i - 1], order[i]];
      ranks[y] = c.batch[x] === c.batch[y] && c.batch[y] !== 0 ? ranks[x] + 1 : 0;
    }
    for (let i = 0; i < n; i++) {
      const place = r.next;
      const at = r.push();
      r.number[at] = c.number[i];
      r.version[at] = c.version[i] ? (ids[c.version[i] - 1] ?? 0) + 1 : 0;
      r.arrival[at] = c.arrivalMs[i];
      r.start[at] = c.startMs[i];
      r.end[at] = c.endMs[i];
      r.target[at] = c.targetMs[i];
      r.batch[at] = c.batch[i];
      r.ends[at] = c.end[i];
      r.rank[at] = ranks[i];
      r.stands[at] = stands;
      r.own[at] = c.end[i] === end.cancelled || ofCaller.has(c.reason?.[i]) ? 1 : 0;
      if (c.endMs[i] - c.arrivalMs[i] > this.longestRequest) this.longestRequest = c.endMs[i] - c.arrivalMs[i];
      if (c.batch[i]) this.noteArrival(c.batch[i], c.arrivalMs[i]);
      if (c.end[i] === end.late) this.lastLate = place;
      if (c.end[i] !== end.answered && c.id?.[i]) this.name(c.number[i], c.id[i]);
    }
  }

  noteArrival(number, arrival) {
    const place = this.batchPlace(number);
    if (place < 0) return;
    const at = place & this.batches.mask;
    if (arrival < this.batches.firstArrival[at]) this.batches.firstArrival[at] = arrival;
  }

  name(number, id) {
    this.names.set(number, id);
    if (this.names.size > 4000) this.names.delete(this.names.keys().next().value);
  }

  // batchPlace is the place of a batch by its number, or -1.
  batchPlace(number) {
    const place = this.places[number & this.batches.mask] - 1;
    return place >= this.batches.first && this.batches.number[place & this.batches.mask] === number ? place : -1;
  }

  // rates are of the latest seconds: answers and errors a second, and over how long; null before a second is known.
  get rates() {
    const last = this.samples.at(-1);
    const first = this.samples.find((s) => s.at >= this.now - this.window);
    const seconds = last ? (last.at - first.at) / 1000 : 0;
    if (seconds < 0.9) return null;
    return { seconds, answers: (last.answered - first.answered) / seconds, errors: (last.errors - first.errors) / seconds };
  }

  deviceOfLane(lane) {
    return this.devices.find((d) => lane >= d.firstLane && lane < d.firstLane + d.lanes);
  }
}

// counts sums the totals of all models up. A caller that leaves is no error of the server.
function counts(totals) {
  const sum = { answered: 0, errors: 0 };
  for (const t of Object.values(totals)) {
    sum.answered += t.answered ?? 0;
    sum.errors += (t.refused ?? 0) + (t.expired ?? 0) + (t.failed ?? 0);
  }
  return sum;
}

const blank = { slot: '', weight: 0, targetMs: 0, limitMs: 0, share: 0, backgroundShare: 0, entitledShare: 0, requestsPerSecond: 0, batchesPerSecond: 0,
  rowsPerBatch: 0, p50Ms: 0, p99Ms: 0, waiting: 0, version: 0, device: '' };
const noTotals = { batches: 0, rows: 0, paddedRows: 0, busySeconds: 0, flushes: {}, answered: 0, late: 0, lost: {} };
