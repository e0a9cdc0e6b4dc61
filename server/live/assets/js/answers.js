// The five answers above the weave, its title, and the sentence that says the same as the picture.
import { $, el, say, swatch } from './dom.js';
import { list, ms, percent, plural } from './format.js';
import { lastLate, most, slowed, waiting, wronged } from './sentences.js';
import { explain } from './story.js';

const questions = { most: 'Who uses the device most?', wronged: 'Is anyone wronged?', late: 'Which request was late last?', compare: 'Which version is better?', shadow: 'Where does the shadow differ?' };
const pace = 1500; // ms between changes of the texts, so that they can be read
const aloud = 30000; // ms between changes of what is read aloud

export function startAnswers(store, findings, weave) {
  const boxes = {};
  for (const [name, question] of Object.entries(questions)) {
    const box = { short: el('p.short'), more: el('p.more') };
    box.node = el('div.answer', null, el('h2', null, question), box.short, box.more);
    boxes[name] = box;
    $('answers').append(box.node);
  }
  let told = 0;
  let spoken = 0;

  const tell = (name, answer) => {
    const box = boxes[name];
    box.node.classList.toggle('alarm', answer.bad === true);
    if (box.short.dataset.text !== answer.short) {
      box.short.dataset.text = answer.short;
      box.short.replaceChildren(...(answer.version ? [swatch(answer.version.colour)] : []), answer.short);
    }
    if (!answer.number) return say(box.more, answer.text);
    if (box.number === answer.number && box.text === answer.text) return;
    box.number = answer.number;
    box.text = answer.text;
    box.more.replaceChildren(`${answer.text} `, el('button.link', { type: 'button', onclick: () => explain(`#${answer.number}`) }, 'Why?'), ' ',
      el('button.link', { type: 'button', onclick: () => weave.choose({ kind: 'request', place: store.lastLate }, true) }, 'Show'));
  };

  return (urgent) => {
    const now = performance.now();
    if (!urgent && now - told < pace) return false;
    told = now;
    const harm = wronged(store);
    const a = { most: most(store), wronged: harm, late: lastLate(store, harm.bad === true),
      compare: known(findings.compare, { short: 'No comparison', text: 'No model at work has had a rollout, which compares two versions.' }),
      shadow: known(findings.shadow, { short: 'No shadow', text: 'No version runs in the shadow of another.' }) };
    for (const [name, answer] of Object.entries(a)) tell(name, answer);
    weave.say();
    say($('weave-title'), title(store));
    say($('weave-text'), text(store, weave));
    if (now - spoken > aloud) {
      spoken = now;
      say($('summary'), `${a.most.short}. Wronged: ${a.wronged.short}. Late last: ${a.late.short}.`);
    }
    return true;
  };
}

// known is what was found, or what holds where that is nothing; while it is not known it is said so.
const known = (found, none) => (found === undefined ? { short: '…', text: 'Not loaded yet.' } : (found ?? none));

function title(store) {
  const lost = store.devices.filter((d) => d.lost);
  return `${lost.length > 0 ? `${list(lost.map((d) => d.name))} ${lost.length > 1 ? 'are' : 'is'} lost; ` : ''}${use(store)}`;
}

// use says who uses the busiest device.
function use(store) {
  const busy = store.devices.filter((d) => d.lanes > 0 && !d.lost);
  if (busy.length === 0) return 'no device is left';
  const users = (store.present ?? []).filter((v) => v.share > 0.0005);
  if (users.length === 0) return `${list(busy.map((d) => d.name))} ${busy.length > 1 ? 'are' : 'is'} idle${waiting(store) > 0 ? `, and ${plural(waiting(store), 'request')} wait` : ': no version has work'}`;
  const d = busy.reduce((a, b) => (b.busyShare > a.busyShare ? b : a));
  const mine = users.filter((v) => v.device === d.name);
  return `${plural(mine.length, 'version')} ${mine.length === 1 ? 'uses' : 'share'} ${d.name}, which is ${percent(d.busyShare)} busy`;
}

function text(store, weave) {
  const d = store.devices[0];
  if (!d) return '';
  const still = weave.view.still !== 0;
  const parts = weave.shares();
  const shares = [...parts].filter(([, s]) => s > 0.0005).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([id, s]) => `${store.versions[id].label} ${percent(s)}`);
  if (shares.length === 0) return still ? 'No batch ran in the time shown.' : 'No batch ran in the last seconds.';
  const held = still ? undefined : store.devices.filter((x) => x.lanes > 0).find((x) => slowed(store, x) > 1);
  const slow = held ? ` Batches take ${slowed(store, held).toFixed(1)}\u00d7 as long as they use ${held.name}: they wait for it, or for a processor, beside other programs.` : '';
  const sparse = store.now - store.sparse < 10000 ? ' More happened than is drawn: some batches or requests are left out.' : '';
  return `In words: shares of device time ${still ? 'in the time shown' : `in the last ${ms(store.window)}`} were ${list(shares)}.${still ? ' Time stands still; space lets it flow.' : ''}${slow}${sparse}`;
}
