// The layer above the weave: what is chosen, its members, the thread from a late request to the batch that held the device,
// and the time cursor.
import { blame } from '../blame.js';
import { end } from '../words.js';
import { blockBox } from './blocks.js';

export function drawOver(g, store, paint, view, rows, { chosen, hovered, cursor, width, height }) {
  g.clearRect(0, 0, width, height);
  if (cursor !== null && cursor >= view.from && cursor <= view.to) {
    g.fillStyle = paint.muted;
    g.fillRect((cursor - view.from) * view.scale, 0, 1, height);
  }
  if (!chosen && store.lastLate >= store.requests.first) thread(g, store, paint, view, rows, store.lastLate);
  for (const item of [hovered, chosen]) {
    if (!item) continue;
    const strong = item === chosen;
    if (item.kind === 'batch') {
      outlineBatch(g, store, paint, view, rows, item.place, strong);
      if (strong) members(g, store, paint, view, rows, item.place);
    } else {
      const b = store.batchPlace(store.requests.batch[item.place & store.requests.mask]);
      outlineRequest(g, store, paint, view, rows, item.place);
      if (strong && b >= 0) outlineBatch(g, store, paint, view, rows, b, false);
      thread(g, store, paint, view, rows, item.place);
    }
  }
}

function outlineBatch(g, store, paint, view, rows, place, strong) {
  const b = store.batches;
  const i = place & b.mask;
  if (place < b.first || !rows.laneHeight[b.lane[i]]) return;
  const x = (b.start[i] - view.from) * view.scale;
  const w = Math.max(3, (b.end[i] - b.start[i]) * view.scale);
  const top = rows.laneTop[b.lane[i]] + blockBox.head;
  const tall = rows.laneHeight[b.lane[i]] - blockBox.head;
  g.lineWidth = strong ? 2.5 : 1.5;
  g.strokeStyle = paint.text;
  g.strokeRect(x - 1, top - 1, w + 1, tall + 2);
}

function requestY(store, rows, i) {
  const r = store.requests;
  const v = r.version[i] - 1;
  const tall = (rows.versionHeight[v] ?? 0) - 4;
  if (tall <= 0) return -1;
  const pitch = Math.max(1.5, Math.min(5, tall / rows.deepest[v]));
  return rows.versionTop[v] + 2 + ((r.rank[i] % Math.max(1, Math.floor(tall / pitch))) + 0.5) * pitch;
}

function outlineRequest(g, store, paint, view, rows, place) {
  const r = store.requests;
  const i = place & r.mask;
  const y = requestY(store, rows, i);
  if (y < 0) return;
  const x = (r.arrival[i] - view.from) * view.scale;
  g.strokeStyle = paint.text;
  g.lineWidth = 1.5;
  g.strokeRect(x - 2, y - 4, Math.max(4, (r.end[i] - r.arrival[i]) * view.scale) + 4, 8);
}

// members lights the requests of a batch up, and draws the thread of its latest one.
function members(g, store, paint, view, rows, place) {
  const b = store.batches;
  const number = b.number[place & b.mask];
  const r = store.requests;
  const from = b.end[place & b.mask] - 1;
  let worst = -1;
  for (let p = r.firstFrom(r.end, from); p < r.next; p++) {
    const i = p & r.mask;
    if (r.end[i] > from + 5000) break;
    if (r.batch[i] !== number) continue;
    const y = requestY(store, rows, i);
    if (y < 0) continue;
    g.strokeStyle = paint.text;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo((r.arrival[i] - view.from) * view.scale, y);
    g.lineTo((r.end[i] - view.from) * view.scale, y);
    g.stroke();
    if (r.ends[i] === end.late && (worst < 0 || r.arrival[i] < r.arrival[worst & r.mask])) worst = p;
  }
  if (worst >= 0) thread(g, store, paint, view, rows, worst);
}

// remembered is the blame of the request whose thread is drawn in every frame.
const memory = { place: -1, next: -1, why: null };
function remembered(store, place) {
  if (memory.place !== place || memory.next !== store.batches.next) {
    memory.place = place;
    memory.next = store.batches.next;
    memory.why = blame(store, place);
  }
  return memory.why;
}

// thread runs from a late request to the batch that held the device while it waited.
function thread(g, store, paint, view, rows, place) {
  const r = store.requests;
  const i = place & r.mask;
  if (r.ends[i] !== end.late || r.end[i] < view.from || r.arrival[i] > view.to) return;
  const why = remembered(store, place);
  if (why.batch < 0) return;
  const b = store.batches;
  const j = why.batch & b.mask;
  const y = requestY(store, rows, i);
  if (y < 0 || !rows.laneHeight[b.lane[j]]) return;
  const x1 = (r.arrival[i] - view.from) * view.scale;
  const x2 = ((Math.max(b.start[j], r.arrival[i]) + b.end[j]) / 2 - view.from) * view.scale;
  const bottom = rows.laneTop[b.lane[j]] + rows.laneHeight[b.lane[j]];
  g.strokeStyle = paint.red;
  g.lineWidth = 1.5;
  g.beginPath();
  g.moveTo(x1, y);
  g.bezierCurveTo(x1, (y + bottom) / 2, x2, (y + bottom) / 2, x2, bottom - 2);
  g.stroke();
  g.fillStyle = paint.red;
  g.beginPath();
  g.arc(x2, bottom - 2, 3, 0, 7);
  g.arc(x1, y, 3, 0, 7);
  g.fill();
  outlineBatch(g, store, paint, view, rows, why.batch, false);
}
