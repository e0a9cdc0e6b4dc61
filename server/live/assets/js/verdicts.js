// How a version fares, in words. One rule for all of the page.
import { ms, percent } from './format.js';

// status says how the p99 stands to the target.
export function status(v) {
  if (v.p99Ms === 0) return { text: [source(v), v.waiting > 0 ? `${v.waiting} waiting` : ''].filter(Boolean).join(', ') || 'no request', bad: false };
  if (v.targetMs === 0) return { text: `p99 ${ms(v.p99Ms)}, no target`, bad: false };
  const bad = v.p99Ms > v.targetMs;
  return { text: `${bad ? '▲ ' : ''}p99 ${ms(v.p99Ms)} of ${ms(v.targetMs)}${bad ? ': late' : ''}`, bad };
}

// source says where the rows of a version come from that answers no request by itself. Steps of pipelines are no requests of it.
function source(v) {
  if (v.backgroundShare > 0 && v.backgroundShare >= v.share) return 'copies only';
  return v.batchesPerSecond > 0 && !v.lastMinute?.lost ? 'pipelines ask it' : '';
}

// due says how the share stands to the one it is entitled to.
export function due(v, share) {
  if (v.entitledShare === 0) return { text: '', bad: false };
  if (starved(v)) return { text: `▲ due ${percent(v.entitledShare)}`, bad: true };
  if (v.greedy) return { text: `asks for more than its ${percent(v.entitledShare)}`, bad: false };
  return { text: share < 0.9 * v.entitledShare ? (v.slowed > 1.5 ? 'the device is slow' : 'wants no more') : `due ${percent(v.entitledShare)}`, bad: false };
}

// starved says whether a version gets less than its share although it has had work waiting all the time lately, more than its
// batches could take. Requests that only wait for the batch in flight are no such work: they may be late, but miss no share.
// Nor is it the server's doing where batches take long because other programs have the device: then shares are of the rest.
// Nor, without a lag, of the scheduler: what waits then runs as soon as the batch in flight ends.
export function starved(v) {
  if (v.entitledShare === 0 || !(v.lag > 0.05) || v.waits.length < 12 || v.share * Math.max(1, v.slowed ?? 1) >= 0.9 * v.entitledShare || v.waits.some((n) => n === 0)) return false;
  return v.batchesPerSecond === 0 || v.cut > 0.5;
}
