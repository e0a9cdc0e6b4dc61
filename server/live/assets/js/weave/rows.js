// The rows of the weave: a lane per lane of a device, then one per version, with their labels and bullet bars. The browser lays
// them out; the canvas is painted where they are.
import { el, say, show, swatch } from '../dom.js';
import { ms, percent, plural, short } from '../format.js';
import { slowed, taken } from '../sentences.js';
import { due, status } from '../verdicts.js';

export class Rows {
  constructor(host) {
    this.host = host;
    this.shape = '';
    this.laneTop = [];
    this.laneHeight = [];
    this.versionTop = [];
    this.versionHeight = [];
    this.deepest = [];
    this.rowOf = [];
    this.shown = [];
    this.deviceRows = [];
    this.versionRows = new Map();
    this.chosenAt = 0;
  }

  // update shows the versions that are most active; returns whether rows came or went.
  update(store, shares) {
    const shown = this.choose(store, shares);
    const devices = store.devices.filter((d) => d.lanes > 0);
    const shape = JSON.stringify([store.run, devices.map((d) => [d.name, d.lanes]), shown]);
    const changed = shape !== this.shape;
    if (changed) {
      this.shape = shape;
      this.build(store, devices, shown);
    }
    if (changed) this.tell(store, shares);
    return changed;
  }

  choose(store, shares) {
    const most = window.innerHeight > 1500 ? 16 : 8;
    const present = store.present ?? [];
    const activity = (v) => (shares.get(v.id) ?? 0) + 0.001 * v.waiting + 1e-6 * v.requestsPerSecond;
    if (present.length > most && this.shown.length === most && performance.now() - this.chosenAt < 4000 && this.shown.every((id) => present.some((v) => v.id === id))) return this.shown;
    this.chosenAt = performance.now();
    const best = [...present].sort((a, b) => activity(b) - activity(a)).slice(0, most);
    const kept = new Set(best);
    const list = present.filter((v) => kept.has(v));
    const seen = new Map();
    for (const v of list) {
      v.stripe = seen.get(v.colour) ?? 0;
      seen.set(v.colour, v.stripe + 1);
    }
    return list.map((v) => v.id);
  }

  build(store, devices, shown) {
    this.shown = shown;
    this.deviceRows = [];
    this.versionRows.clear();
    const nodes = [];
    for (const d of devices) {
      for (let l = 0; l < d.lanes && this.deviceRows.length < 24; l++) {
        const row = { lane: d.firstLane + l, device: d.name, lead: l === 0, name: el('span.name', null, d.lanes > 1 ? `${d.name} · ${l + 1}` : d.name), note: el('span.note'),
          track: el('div.track'), main: el('div.bullet-main'), lag: el('div.note') };
        row.node = el('div.row.device', null, el('div.label', null, row.name, row.note), row.track, el('div.bullet', null, row.main, row.lag));
        this.deviceRows.push(row);
        nodes.push(row.node);
      }
    }
    for (const id of shown) {
      const v = store.versions[id];
      const mark = swatch(v.colour);
      if (v.stripe > 0) mark.classList.add(`stripe-${Math.min(2, v.stripe)}`);
      const row = { name: el('span.name', { title: v.label }, short(v.label)), slot: el('span.slot'), note: el('span.note'), track: el('div.track'), bar: el('div.bar'), tick: el('div.tick'), value: el('span.value'), due: el('span'), p99: el('span') };
      row.bar.style.background = v.colour;
      row.meter = el('div.meter', { 'aria-hidden': 'true' }, row.bar, row.tick);
      row.node = el('div.row.version', null, el('div.label', null, el('span.head', null, mark, row.name, row.slot), row.note), row.track,
        el('div.bullet', null, el('div.bullet-main', null, row.meter, row.value), el('span.note', null, row.due, row.p99)));
      this.versionRows.set(id, row);
      nodes.push(row.node);
    }
    this.host.dataset.lanes = this.deviceRows.length > 8 ? 'many' : this.deviceRows.length > 3 ? 'some' : 'few';
    this.others = el('p.others');
    this.host.replaceChildren(...nodes, this.others);
  }

  // tell writes what the rows say.
  tell(store, shares) {
    const devices = store.devices;
    for (const row of this.deviceRows) {
      const d = store.devices.find((x) => x.name === row.device);
      if (!row.lead || !d) continue;
      say(row.note, d.lost ? `lost: ${d.lost}` : d.gpu?.product?.replace(/^NVIDIA /, '') ?? plural(d.lanes, 'lane'));
      say(row.main, `${percent(d.busyShare)} busy${slowed(store, d) > 1.5 ? `, taken ${percent(taken(store, d))} of the time` : ''}`);
      say(row.lag, d.busyShare < 0.0005 ? '' : !(d.lagMs > d.lagBoundMs) ? 'shares are kept' : `▲ ${ms(d.lagMs)} behind a share`);
    }
    let rest = 0;
    let hidden = 0;
    for (const v of store.present ?? []) {
      const row = this.versionRows.get(v.id);
      const share = shares.get(v.id) ?? 0;
      if (!row) {
        rest += share;
        hidden++;
        continue;
      }
      const shadow = store.shadows?.has(v.label) === true;
      say(row.slot, shadow ? 'shadow' : v.slot === 'prod' ? '' : v.slot);
      say(row.note, shadow ? 'spare time only' : `${v.device !== devices[0]?.name ? `${v.device} · ` : ''}weight ${v.weight}${v.targetMs > 0 ? ` · ${ms(v.targetMs)}${v.device !== devices[0]?.name ? '' : ' target'}` : ''}`);
      row.bar.style.width = `${Math.min(100, share * 100)}%`;
      row.node.dataset.share = share;
      show(row.tick, v.entitledShare > 0 && !shadow);
      row.tick.style.left = `${Math.min(100, v.entitledShare * 100)}%`;
      say(row.value, percent(share));
      const owed = shadow ? { text: '', bad: false } : due(v, share);
      const state = status(v);
      say(row.due, owed.text === '' ? '' : `${owed.text} · `);
      say(row.p99, state.text);
      row.due.classList.toggle('bad', owed.bad);
      row.p99.classList.toggle('bad', state.bad);
    }
    say(this.others, hidden > 0 ? `and ${plural(hidden, 'other version')} with ${percent(rest)} of the time together; shown are the ${this.shown.length} most active` : '');
  }

  // measure reads where the rows are, relative to the stage.
  measure(store, stage) {
    const origin = stage.getBoundingClientRect();
    this.laneTop.length = this.laneHeight.length = 0;
    this.versionTop.length = this.versionHeight.length = this.deepest.length = this.rowOf.length = 0;
    const lanes = store.devices.reduce((n, d) => Math.max(n, d.firstLane + d.lanes), 0);
    for (let i = 0; i < lanes; i++) this.laneTop[i] = this.laneHeight[i] = 0;
    for (let i = 0; i < store.versions.length; i++) {
      this.versionTop[i] = this.versionHeight[i] = 0;
      this.deepest[i] = 4;
      this.rowOf[i] = -1;
    }
    let box = { left: 0, width: 0 };
    for (const row of this.deviceRows) {
      const r = row.track.getBoundingClientRect();
      this.laneTop[row.lane] = r.top - origin.top;
      this.laneHeight[row.lane] = r.height;
      box = { left: r.left - origin.left, width: r.width };
    }
    this.shown.forEach((id, i) => {
      const r = this.versionRows.get(id).track.getBoundingClientRect();
      this.versionTop[id] = r.top - origin.top;
      this.versionHeight[id] = r.height;
      this.rowOf[id] = i;
      box = { left: r.left - origin.left, width: r.width };
    });
    return { ...box, height: origin.height };
  }

  // deepen learns how many requests of a batch lie above each other in each lane.
  deepen(store) {
    for (let i = this.rowOf.length; i < store.versions.length; i++) {
      this.versionTop[i] = this.versionHeight[i] = 0;
      this.rowOf[i] = -1;
    }
    for (let i = 0; i < store.versions.length; i++) this.deepest[i] = 4;
    const r = store.requests;
    const from = Math.max(r.first, r.next - 20000);
    for (let p = from; p < r.next; p++) {
      const i = p & r.mask;
      const v = r.version[i] - 1;
      if (v >= 0 && r.rank[i] + 1 > this.deepest[v]) this.deepest[v] = Math.min(64, r.rank[i] + 1);
    }
  }
}
