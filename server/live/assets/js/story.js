// Why a request fared as it did, told by the server.
import { call } from './api.js';
import { command } from './command.js';
import { $, el, say } from './dom.js';
import { ms } from './format.js';
import { endOf, endWord } from './words.js';

export async function explain(request) {
  const dialog = $('story');
  say($('story-title'), `Request ${request}`);
  $('story-body').replaceChildren(el('p', null, 'Asking the server.'));
  if (!dialog.open) dialog.showModal();
  try {
    const answer = await call('ExplainRequest', { request });
    $('story-body').replaceChildren(...(answer?.explanation ? lines(answer.explanation) : [el('p', null, 'The server no longer remembers this request: it keeps those of the last minute.')]));
    if (answer?.explanation) say($('story-title'), title(answer.explanation, request));
  } catch (error) {
    $('story-body').replaceChildren(el('p.bad', null, error.message));
  }
}

function title(e, request) {
  const who = e.model ? `${e.model} v${e.version ?? 0} ` : '';
  return `${who}${request} was ${endWord[endOf(e.end)] || 'answered'}${e.endedMs ? ` after ${ms(e.endedMs)}` : ''}`;
}

function lines(e) {
  const out = [el('ol.story', null, ...(e.story ?? []).map((s) => el('li', null, s)))];
  const holders = e.holders ?? [];
  if (holders.length > 0) {
    const longest = holders[0].ms;
    out.push(el('h3', null, 'Who had the device while it waited'), el('ul.holders', null, ...holders.slice(0, 6).map((h) => {
      const bar = el('span.holder-bar', { 'aria-hidden': 'true' });
      bar.style.width = `${(140 * h.ms) / longest}px`;
      return el('li', null, el('span', null, `${h.model} v${h.version ?? 0}`), bar, el('span', null, ms(h.ms)));
    })));
  }
  if (e.traceId) out.push(el('p.sub', null, `Trace ${e.traceId}`));
  out.push(el('p.sub', null, 'In a terminal: ', el('code', null, command(`explain '#${e.number}'`))));
  return out;
}
