// What to type at a server that nobody asks: a prediction of a model that it serves.
import { call, every } from './api.js';
import { command, copy } from './command.js';
import { $, el, say, show } from './dom.js';

const most = 16; // elements of an input that are written out; without them the command says which inputs there are

export function startTry(store) {
  let line = '';
  const said = el('p.sub');
  const code = el('code');
  const done = el('span', { role: 'status' });
  const button = el('button', { type: 'button', onclick: () => copy(line, (text) => say(done, text === line ? '' : 'Copied.')) }, 'Copy');
  const row = el('p.command', null, code, button, done);
  $('try').replaceChildren(said, row);
  const work = async () => {
    if (asked(store)) return show($('try'), false);
    const models = (await call('ListModels'))?.models ?? [];
    const ready = models.flatMap((m) => (m.versions ?? []).filter((v) => v.state === 'VERSION_STATE_READY').slice(-1).map((v) => ({ model: m.name, inputs: inputs(v) })));
    const best = ready.find((r) => r.inputs !== '') ?? ready[0];
    line = best ? command(`predict ${quoted(best.model)}${best.inputs}`) : '';
    say(said, best ? `No version was asked in the last minute. For an answer of ${best.model}, type in a terminal:`
      : models.length > 0 ? 'No model is ready to be asked yet.' : 'There is no model to be asked yet. Put a folder such as mymodel/1/model.onnx into the model repository: it is found and loaded by itself.');
    say(code, line);
    show(row, line !== '');
    show($('try'), true);
  };
  return { clear: every($('weave'), 2000, work) };
}

// asked says whether any version was, in the last minute.
function asked({ requests: r, present }) {
  for (let p = r.first; p < r.next; p++) if (r.version[p & r.mask] > 0) return true;
  return present.some((v) => v.waiting > 0);
}

// inputs are the flags that give a version zeros, or nothing where that would be long.
function inputs(version) {
  const specs = version.signature?.inputs ?? [];
  if (specs.some((s) => elements(s) > most)) return '';
  return specs.map((s) => ` --input ${quoted(s.name)}='${example(s)}'`).join('');
}

const extents = (spec) => (spec.shape ?? []).map((n) => (Number(n) < 0 ? 1 : Number(n)));
const elements = (spec) => extents(spec).reduce((a, b) => a * b, 1);

function example(spec) {
  const one = { DATA_TYPE_BOOL: 'false', DATA_TYPE_STRING: '"text"' }[spec.dtype] ?? '0';
  return extents(spec).reduceRight((text, n) => `[${new Array(n).fill(text).join(', ')}]`, one);
}

// quoted is a name as a shell takes it.
const quoted = (name) => (/^[\w.:/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);
