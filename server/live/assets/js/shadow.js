// The shadow: a sentence, the fingerprint of its differences, their distribution, and the worst requests.
import { call, every } from './api.js';
import { choice } from './choice.js';
import { $, el, say } from './dom.js';
import { drawEcdf } from './ecdf.js';
import { Fingerprint } from './fingerprint.js';
import { clock, count, list, ms, percent } from './format.js';
import { worstRequests } from './worst.js';

export function startShadow(store, findings) {
  const print = new Fingerprint(store);
  let shown = '';
  const work = async () => {
    const answer = await call('GetShadowSummary', { fingerprints: true, worst: true });
    const pairs = new Map((answer?.summaries ?? []).toSorted((a, b) => Number(b.done ?? 0) - Number(a.done ?? 0)).map((s) => [pair(s), s]));
    const traffics = new Map();
    for (const s of [...pairs.values()].slice(0, 8)) {
      if (!traffics.has(s.model)) traffics.set(s.model, (await call('GetTraffic', { model: s.model }))?.traffic ?? null);
    }
    store.shadows = new Set([...traffics].flatMap(([model, t]) => (t?.shadow ?? []).map((x) => `${model} v${x.version}`)));
    const chosen = choose([...pairs.keys()].map((key) => [key, key]));
    const summary = pairs.get(chosen) ?? null;
    const traffic = summary ? (traffics.get(summary.model) ?? (await call('GetTraffic', { model: summary.model }))?.traffic) : null;
    const data = summary ? read(summary, traffic) : null;
    findings.shadow = data ? data.finding : null;
    const state = JSON.stringify([summary, traffic]);
    if (state === shown) return;
    shown = state;
    render(data, print);
  };
  const now = every([$('answers'), $('shadow')], 10000, work);
  const choose = choice('shadow-choice', now);
  return { clear: (restarted) => {
    if (restarted) findings.shadow = undefined;
    shown = '';
    now();
  }, theme: () => print.draw() };
}

const pair = (s) => `${s.model} v${s.shadowVersion} beside v${s.primaryVersion}`;

// read picks the output that differs most, and finds where.
function read(summary, traffic) {
  const done = Number(summary.done ?? 0);
  const within = done > 0 ? Number(summary.agreed ?? 0) / done : 1;
  const setting = (traffic?.shadow ?? []).find((s) => String(s.version) === String(summary.shadowVersion));
  const output = (summary.outputs ?? []).toSorted((a, b) => Number(a.agreed ?? 0) - Number(b.agreed ?? 0))[0];
  const relative = setting?.tolerances?.[output?.name] ?? (setting?.tolerance || 0.001);
  // Errors of a fingerprint are absolute, tolerances relative to the largest magnitude.
  const magnitude = output?.maxRelative > 0 ? output.maxAbsolute / output.maxRelative : 0;
  const tolerance = relative * magnitude;
  const places = output?.fingerprint ? differing(output, tolerance) : [];
  const label = `${summary.model} v${summary.shadowVersion}`;
  const names = list(places.slice(0, 3).map((p) => p.name));
  const short = done === 0 ? 'Nothing compared yet' : places.length > 0 ? `${label}: in ${names}` : within < 1 ? `${label}: in ${output?.name ?? 'its answers'}` : 'Nowhere';
  const text = `${percent(within, 1)} of ${count(done)} requests are within tolerance${places[0] ? `; ${places[0].name} differs by ${places[0].worst > 1000 * tolerance ? '' : 'up to '}${times(places[0].worst / tolerance)} the tolerance, last at ${clock(places[0].at)}` : ''}.`;
  return { summary, output, relative, tolerance, within, done, names, places, label, finding: { bad: false, notable: places.length > 0, short, text } };
}

// differing lists the elements with an error beyond the tolerance, the worst first.
function differing(output, tolerance) {
  const print = output.fingerprint;
  if (!(tolerance > 0)) return [];
  return (print.elements ?? []).map((e, i) => {
    let [worst, at] = [0, 0];
    for (const s of print.slices ?? []) {
      const error = Number(s.errors?.[i] ?? 0);
      if (error >= tolerance) at = Date.parse(s.start);
      worst = Math.max(worst, error);
    }
    return { name: elementName(e, output), worst, at };
  }).filter((e) => e.worst >= tolerance).sort((a, b) => b.worst - a.worst);
}

export function elementName(e, output) {
  if (e.name) return e.name;
  if (output && output.fingerprint.elements.length === 1) return output.name;
  const first = Number(e.first ?? 0);
  return Number(e.count) > 1 ? `${first}\u2013${first + Number(e.count) - 1}` : `element ${first}`;
}

function render(data, print) {
  const body = $('shadow-body');
  if (!data) {
    say($('shadow-title'), 'No version runs in the shadow');
    body.replaceChildren(el('p.sub', null, 'A shadow gets copies of requests in spare time, and its answers are compared, not sent. Set ', el('code', null, 'shadow'), ' in a model\u2019s traffic to try a version without risk.'));
    return;
  }
  const { summary, output, within, names } = data;
  $('shadow-title').replaceChildren(`Shadow ${pair(summary)}: ${percent(within, 1)} within tolerance`, ...(names ? ['; ', el('span.bad', null, `${names} ${data.places.length > 1 ? 'differ' : 'differs'}`)] : []));
  const nodes = output ? [el('p.sub', null, floorText(data))] : [];
  if (output?.fingerprint?.slices?.length) nodes.push(print.show(data));
  const curve = el('div.ecdf');
  if (output?.errors) nodes.push(curve);
  nodes.push(el('p.said', null, `${count(data.done)} compared, ${count(Number(summary.dropped ?? 0))} dropped for lack of spare time, ${count(Number(summary.failed ?? 0))} failed, ${count(Number(summary.skipped ?? 0))} skipped by the sample or while it was not ready. The p99 of its executions by the clock is ${ms(summary.shadowComputeMsP99 ?? 0)}, that of v${summary.primaryVersion} ${ms(summary.primaryComputeMsP99 ?? 0)}.`));
  nodes.push(worstRequests(output, summary));
  body.replaceChildren(...nodes);
  print.draw();
  if (output?.errors) drawEcdf(curve, output, data.relative);
}

function floorText({ output, summary }) {
  const sources = new Set((output?.fingerprint?.elements ?? []).map((e) => e.floorSource));
  const floor = sources.has('FLOOR_SOURCE_LEAST_UNAUDITED') ? 'its noise floor is not measured yet: it is the least that numbers can differ by' : `against v${summary.primaryVersion} run again by itself`;
  return `Output ${output?.name ?? ''}: rows are its elements, columns 10 s each. The colour is the largest error in that time, against the noise floor: ${floor}.`;
}

export const times = (x) => (x > 1000 ? 'over 1,000×' : `${x >= 10 ? Math.round(x) : x.toFixed(1)}×`);
