// Joins the parts of the page.
import { setToken } from './access.js';
import { startAnswers } from './answers.js';
import { startCompare } from './compare.js';
import { startCost } from './cost.js';
import { startDevices } from './devices.js';
import { $, say, show } from './dom.js';
import { Feed } from './feed.js';
import { headline, startHeadline } from './headline.js';
import { startHistory } from './history.js';
import { startKeys } from './keys.js';
import { startLosses } from './losses.js';
import { startModels } from './models.js';
import { startService } from './service.js';
import { startShadow } from './shadow.js';
import { Store } from './store.js';
import { startTheme } from './theme.js';
import { startTry } from './try.js';
import { Weave } from './weave/weave.js';

const store = new Store();
const weave = new Weave(store);
const findings = {}; // of the rollout and the shadow: null where there is none, undefined until that is known
const answers = startAnswers(store, findings, weave);
const head = startHeadline(store);
let parts = []; // from the first message on: before it nothing is known
const start = () => [startTry, startService, startCost, startLosses, startModels, startDevices, startHistory, startCompare, startShadow].map((part) => part(store, findings));

const states = {
  live: ['live', ''],
  lost: ['server not reached, trying again', 'The server cannot be reached. What is shown is from before; the page goes on by itself as soon as the server answers.'],
  hidden: ['paused', ''],
  token: ['token wanted', 'This server answers only with a token.'],
  forbidden: ['not allowed', 'This server does not let you observe it. Ask whoever runs it for the permission OBSERVE.'],
};

function state(word, detail) {
  $('state').dataset.state = word;
  document.body.classList.toggle('stale', word !== 'live');
  say($('state'), states[word][0]);
  const text = [states[word][1], word === 'forbidden' && detail ? `It says: ${detail}.` : ''].join(' ').trim();
  say($('notice'), text);
  show($('notice'), text !== '');
  if (word !== 'token' || $('token').open) return;
  say($('token-why'), detail ?? '');
  $('token').showModal();
}

const feed = new Feed({
  state,
  activity(message, first) {
    const restarted = store.take(message, first);
    state('live');
    if (parts.length === 0) parts = start();
    else if (first || restarted) for (const part of parts) part.clear?.(restarted);
    weave.heard(first || restarted);
    if (answers(first || restarted)) head();
    say($('server'), `since ${new Date(store.began).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })}`);
    if (restarted) toast('The server was restarted.');
  },
});

$('token-form').addEventListener('submit', () => {
  setToken($('token-input').value.trim());
  $('token-input').value = '';
  feed.retry();
});

let toasting = 0;
export function toast(text) {
  clearTimeout(toasting);
  say($('toast'), text);
  toasting = setTimeout(() => say($('toast'), ''), 4000);
}

startTheme(() => {
  weave.theme();
  for (const part of parts) part.theme?.();
});
startKeys(store, weave, toast);
feed.start();

// For tests: what the page knows and how it draws.
globalThis.weft = { store, weave, headline: () => headline(store) };
