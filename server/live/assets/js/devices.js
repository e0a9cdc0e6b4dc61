// The devices, and what their drivers say.
import { every } from './api.js';
import { $, el, say } from './dom.js';
import { bytes, list, ms, percent, plural } from './format.js';
import { slowed } from './sentences.js';

export function startDevices(store) {
  let shown = '';
  const work = async () => {
    const facts = store.devices.map((d) => [d.name, title(d), gauges(d), notes(d)]);
    const text = JSON.stringify(facts);
    if (text === shown) return;
    shown = text;
    say($('gpu-title'), heading(store));
    $('gpu-body').replaceChildren(...facts.flatMap(([, name, list_, note]) => [
      el('h3.device-title', null, name),
      el('dl.facts', null, ...list_.map(([what, value, part]) => el('div', null, el('dt', null, what), el('dd', null, value), part === null ? null : gauge(part)))),
      note ? el('p.said', null, note) : null].filter(Boolean)));
  };
  every($('gpu'), 1500, work);
  return { clear: () => (shown = '') };
}

function heading(store) {
  const { devices } = store;
  const lost = devices.filter((d) => d.lost);
  if (lost.length > 0) return `${list(lost.map((d) => d.name))} ${lost.length > 1 ? 'are' : 'is'} lost`;
  const held = devices.filter((d) => d.gpu?.clockEvents?.length > 0);
  if (held.length > 0) return `${plural(devices.length, 'device')}; ${list(held.map((d) => d.name))} cannot run at full clock`;
  const slow = devices.filter((d) => slowed(store, d) > 1.5);
  if (slow.length > 0) return `${list(slow.map((d) => d.name))} ${slow.length > 1 ? 'are' : 'is'} slow: other programs take time of ${slow.length > 1 ? 'them' : 'it'}`;
  return devices.length === 0 ? 'No device' : `${plural(devices.length, 'device works', 'devices work')} as ${devices.length > 1 ? 'they' : 'it'} should`;
}

const title = (d) => `${d.name}${d.gpu?.product ? ` · ${d.gpu.product}` : ''}${d.lost ? ` · lost: ${d.lost}` : ''}`;

// gauges lists what is known: name, value, and the part of what there is, or null.
function gauges(d) {
  const out = [['busy', percent(d.busyShare), d.busyShare], ['lanes', String(d.lanes), null], ['work that waits', ms(d.workMs), null]];
  const g = d.gpu;
  if (!g) return out;
  const part = (a, b) => (a !== undefined && b > 0 ? a / b : null);
  if (g.utilization !== undefined) out.push(['utilisation, by the driver', percent(g.utilization), g.utilization]);
  if (g.memoryUsedBytes !== undefined) out.push(['memory', `${bytes(g.memoryUsedBytes)} of ${bytes(g.memoryTotalBytes ?? 0)}`, part(g.memoryUsedBytes, g.memoryTotalBytes)]);
  if (g.powerWatts !== undefined) out.push(['power', `${Math.round(g.powerWatts)} of ${Math.round(g.powerLimitWatts ?? 0)} W`, part(g.powerWatts, g.powerLimitWatts)]);
  if (g.clockHertz !== undefined) out.push(['clock', `${(g.clockHertz / 1e9).toFixed(2)} of ${((g.clockMaxHertz ?? 0) / 1e9).toFixed(2)} GHz`, part(g.clockHertz, g.clockMaxHertz)]);
  if (g.temperatureCelsius !== undefined) out.push(['temperature', `${Math.round(g.temperatureCelsius)} °C`, null]);
  if (g.coTenantShare !== undefined) out.push(['used by other processes', percent(g.coTenantShare), g.coTenantShare]);
  return out;
}

function notes(d) {
  return d.gpu?.clockEvents?.length ? `Held below its highest clock by ${list(d.gpu.clockEvents.map((e) => e.replaceAll('_', ' ')))}.` : '';
}

function gauge(part) {
  const bar = el('div');
  bar.style.width = `${Math.max(0, Math.min(100, part * 100))}%`;
  return el('div.gauge', { 'aria-hidden': 'true' }, bar);
}
