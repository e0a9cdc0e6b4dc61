// The keys, and the buttons that do the same.
import { command, copy } from './command.js';
import { $, el, say } from './dom.js';
import { ms } from './format.js';
import { download, openInPerfetto } from './perfetto.js';
import { explain } from './story.js';

const keys = [
  ['space', 'freeze time, or let it flow'],
  ['W S', 'show less or more time (also the wheel)'],
  ['A D', 'go back or forward in time (also dragging)'],
  ['← → ↑ ↓', 'walk through blocks and requests'],
  ['enter', 'why the chosen request fared so'],
  ['L', 'go to the last late request'],
  ['O', 'open the last seconds in Perfetto'],
  ['shift+D', 'download them as a trace'],
  ['E', 'copy the command that explains the chosen request'],
  ['esc', 'choose nothing'],
  ['?', 'these keys'],
];

export function startKeys(store, weave, toast) {
  $('help-list').replaceChildren(...keys.flatMap(([k, what]) => [el('dt', null, ...k.split(' ').flatMap((x) => [el('kbd', null, x), ' '])), el('dd', null, what)]));
  const show = () => {
    say($('span'), ms(weave.view.span));
    $('freeze').setAttribute('aria-pressed', String(weave.view.still !== 0));
    say($('freeze'), weave.view.still ? 'Frozen' : 'Freeze');
  };
  weave.onchange = show;
  const saved = (work) => () => work(weave, toast).catch((error) => toast(error.message));
  const actions = {
    ' ': () => weave.change((v) => v.freeze()),
    w: () => weave.change((v) => v.zoom(1 / 1.3, 0.5)),
    s: () => weave.change((v) => v.zoom(1.3, 0.5)),
    a: () => weave.change((v) => v.pan(-0.2)),
    d: () => weave.change((v) => v.pan(0.2)),
    D: saved(download),
    o: saved(openInPerfetto),
    e: () => copyStory(weave, toast),
    l: () => store.lastLate >= store.requests.first && weave.choose({ kind: 'request', place: store.lastLate }, true),
    '?': () => $('help').showModal(),
    Escape: () => weave.choose(null),
    ArrowLeft: () => weave.arrow(-1, 0),
    ArrowRight: () => weave.arrow(1, 0),
    ArrowUp: () => weave.arrow(0, -1),
    ArrowDown: () => weave.arrow(0, 1),
    Enter: () => weave.number() && explain(`#${weave.number()}`),
  };
  const onlyInWeave = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Enter', 'Escape']);
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
    const inWeave = $('weave-stage') === document.activeElement;
    if (!inWeave && (document.activeElement?.matches('input, select, textarea, button, a, summary') || onlyInWeave.has(e.key)) && e.key !== '?') return;
    const act = actions[e.key] ?? actions[e.key.toLowerCase()];
    if (!act) return;
    e.preventDefault();
    act();
  });
  $('freeze').addEventListener('click', actions[' ']);
  $('closer').addEventListener('click', actions.w);
  $('wider').addEventListener('click', actions.s);
  $('perfetto').addEventListener('click', actions.o);
  $('download').addEventListener('click', actions.D);
  $('help-open').addEventListener('click', actions['?']);
  $('help-open').setAttribute('aria-haspopup', 'dialog');
  show();
}

function copyStory(weave, toast) {
  const number = weave.number();
  if (!number) return toast('Choose a request or a batch first.');
  return copy(command(`explain '#${number}'`), toast);
}
