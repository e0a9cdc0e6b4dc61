// Finds the batch or the request under a point of the weave, and the next one for the arrow keys.

// hit returns {kind: 'batch' | 'request', place} or null.
export function hit(store, rows, view, x, y) {
  const time = view.from + x / view.scale;
  for (const row of rows.deviceRows) {
    if (y >= rows.laneTop[row.lane] && y < rows.laneTop[row.lane] + rows.laneHeight[row.lane]) return batchAt(store, row.lane, time, 2 / view.scale);
  }
  for (const id of rows.shown) {
    const top = rows.versionTop[id];
    if (y >= top && y < top + rows.versionHeight[id]) return requestAt(store, id, time, y - top, rows, 2 / view.scale);
  }
  return null;
}

export function batchAt(store, lane, time, slack) {
  const b = store.batches;
  for (let p = b.firstFrom(b.end, time - slack); p < b.next; p++) {
    const i = p & b.mask;
    if (b.end[i] > time + store.longestBatch + slack) break;
    if (b.lane[i] === lane && b.start[i] <= time + slack) return { kind: 'batch', place: p };
  }
  return null;
}

function requestAt(store, id, time, y, rows, slack) {
  const r = store.requests;
  const tall = rows.versionHeight[id] - 4;
  const pitch = Math.max(1.5, Math.min(5, tall / rows.deepest[id]));
  const fit = Math.max(1, Math.floor(tall / pitch));
  let best = null;
  let nearest = 8;
  for (let p = r.firstFrom(r.end, time - slack); p < r.next; p++) {
    const i = p & r.mask;
    if (r.end[i] > time + store.longestRequest) break;
    if (r.version[i] !== id + 1 || r.arrival[i] > time + slack) continue;
    const distance = Math.abs(2 + ((r.rank[i] % fit) + 0.5) * pitch - y) - (r.ends[i] > 1 ? 1 : 0);
    if (distance < nearest) {
      nearest = distance;
      best = { kind: 'request', place: p };
    }
  }
  return best;
}

// beside is the next batch or request of the same lane, in a direction.
export function beside(store, chosen, direction) {
  const ring = chosen.kind === 'batch' ? store.batches : store.requests;
  const same = chosen.kind === 'batch' ? ring.lane : ring.version;
  const lane = same[chosen.place & ring.mask];
  for (let p = chosen.place + direction; p >= ring.first && p < ring.next; p += direction) {
    if (same[p & ring.mask] === lane) return { kind: chosen.kind, place: p };
  }
  return chosen;
}

// lanes lists what up and down go through: the lanes of devices, then the versions.
export function lanesOf(rows) {
  return [...rows.deviceRows.map((r) => ({ kind: 'batch', key: r.lane })), ...rows.shown.map((id) => ({ kind: 'request', key: id + 1 }))];
}

// inLane is the batch or request of a lane that is nearest to a time.
export function inLane(store, lane, time) {
  const ring = lane.kind === 'batch' ? store.batches : store.requests;
  const same = lane.kind === 'batch' ? ring.lane : ring.version;
  const from = ring.firstFrom(ring.end, time);
  for (let d = 0; d < ring.length; d++) {
    for (const p of [from + d, from - 1 - d]) {
      if (p >= ring.first && p < ring.next && same[p & ring.mask] === lane.key) return { kind: lane.kind, place: p };
    }
  }
  return null;
}
