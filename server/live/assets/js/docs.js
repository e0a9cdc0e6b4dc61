// The page of the models' calls: what each takes, an example to send, and lines to copy. All of it is in openapi.json.
import { headers, setToken, token } from './access.js';
import { copy } from './command.js';
import { $, el, say, show } from './dom.js';
import { startTheme } from './theme.js';

const base = new URL('.', location.href);
const most = 1 << 10; // elements of an input that are written out

async function start() {
  startTheme(() => {});
  $('token').addEventListener('submit', (event) => {
    event.preventDefault();
    setToken($('token-text').value.trim());
    load();
  });
  await load();
}

async function load() {
  try {
    const response = await fetch('openapi.json', { headers: headers(), cache: 'no-store' });
    const body = await response.json();
    show($('token'), response.status === 401);
    if (!response.ok) throw new Error(body.error);
    show($('notice'), false);
    draw(body);
  } catch (error) {
    say($('notice'), error.message);
    show($('notice'), true);
  }
}

function draw(api) {
  const { models, grpc } = api['x-weft'];
  $('models').replaceChildren(...models.map((m) => drawn(m, grpc)));
  if (models.length === 0) $('models').append(el('p.said', null, 'There is no model. Put one into the repository as mymodel/1/model.onnx: it is found and loaded by itself.'));
  $('list').replaceChildren(...Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, of]) =>
    el('tr', null, el('td', null, el('code', null, `${method.toUpperCase()} ${path}`)), el('td', null, of.summary)))));
}

// drawn is the section of a model; one that cannot be shown takes no other with it.
function drawn(model, grpc) {
  try {
    return drawModel(model, grpc);
  } catch (error) {
    return el('section.model', null, el('h2', null, model.name), el('p.said', null, `This model cannot be shown: ${error.message}`));
  }
}

// drawModel is the section of a model.
function drawModel(model, grpc) {
  const id = `model-${model.name}`;
  const versions = model.versions.map((v) => `${v.version} ${v.state}`).join(', ');
  const labels = Object.entries(model.labels ?? {}).map(([label, version]) => `${label} is ${version}`).join(', ');
  const head = [el('h2', { id }, model.name), el('p.said', null, `Versions: ${versions || 'none'}${labels ? `; labels: ${labels}` : ''}`)];
  if (!model.inputs) return el('section.model', { 'aria-labelledby': id }, ...head, el('p.said', null, model.unready));
  const written = JSON.stringify({ ...(model.parameters && { parameters: model.parameters }), inputs: filled(model) });
  const body = el('textarea', { id: `${id}-body`, spellcheck: 'false' });
  body.value = written;
  const answer = el('pre', { id: `${id}-answer`, tabindex: '0', role: 'status', 'aria-label': `Answer of ${model.name}` });
  const send = el('button', { type: 'button', onclick: () => ask(model, body.value, answer) }, 'Send');
  return el('section.model', { 'aria-labelledby': id }, ...head,
    el('div.wide', { tabindex: '0', role: 'region', 'aria-label': `Inputs and outputs of ${model.name}` }, el('table', null,
      el('thead', null, el('tr', null, ...['', 'Name', 'Type', 'Shape'].map((t) => (t ? el('th', { scope: 'col' }, t) : el('td'))))),
      el('tbody', null, ...tensors('Input', model.inputs), ...tensors('Output', model.outputs)))),
    el('div.asking', null,
      el('div', null, el('label', { for: body.id }, `Body of POST /${path(model)}`), body, send),
      el('div', null, el('h3', null, 'Answer'), answer)),
    ...lines(model, grpc, written).map(drawLines));
}

const tensors = (kind, specs) => specs.map((s) => el('tr', null, el('th', { scope: 'row' }, kind + (s.kept ? ', kept in episodes' : '')), el('td', null, s.name), el('td', null, s.dtype), el('td', null, `[${s.shape.map((n) => (n < 0 ? 'any' : n)).join(', ')}]`)));

// given are the tensors that requests and answers of an episode have: the server keeps the others. The paths of /v1 have
// no place for episodes.
const given = (specs) => specs.filter((s) => !s.kept);
const path = (model) => (model.parameters ? `v2/models/${encodeURIComponent(model.name)}/infer` : `v1/models/${encodeURIComponent(model.name)}:predict`);

// filled is the example of a model; where it is too large to be kept in openapi.json, zeros of its shape.
function filled(model) {
  const large = 1 << 18; // more elements are for a program
  return Object.fromEntries(given(model.inputs).map((s) => [s.name, model.example[s.name] ?? (count(s) > large ? `[${s.shape}]: too large to be written here` : s.shape.toReversed().reduce((value, n) => Array(Math.max(1, n)).fill(value), s.dtype === 'string' ? 'text' : 0))]));
}

const count = (s) => s.shape.reduce((a, n) => a * Math.max(1, n), 1);

// shell quotes a text for a shell; names come from whoever made the model.
const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

async function ask(model, body, answer) {
  say(answer, 'asked');
  const began = performance.now();
  try {
    const response = await fetch(path(model), { method: 'POST', body, headers: { ...headers(), 'Content-Type': 'application/json' } });
    const text = await response.text();
    say(answer, `${response.status} after ${(performance.now() - began).toFixed(1)} ms\n${text.length > 1 << 16 ? `${text.slice(0, 1 << 16)}...` : text}`);
  } catch (error) {
    say(answer, error.message);
  }
}

// lines are what people copy into a terminal or a program.
function lines(model, grpc, written) {
  const url = new URL(path(model), base).href;
  const address = grpc.replace(/^(\[::\]|0\.0\.0\.0):/, `${location.hostname}:`);
  const small = written.length < most;
  const inputs = given(model.inputs);
  const { sequence_id: episode } = model.parameters ?? {};
  const json = small ? written : '{"inputs": ...}';
  const auth = token() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  const numpy = inputs.map((s) => `"${s.name}": np.zeros((${s.shape.map((n) => Math.max(1, n)).join(', ')}${s.shape.length === 1 ? ',' : ''}), np.${{ fp32: 'float32', fp64: 'float64', fp16: 'float16', bool: 'bool_' }[s.dtype] ?? s.dtype})`).join(', ');
  const slices = inputs.map((s) => {
    const shape = s.shape.map((n) => Math.max(1, n));
    const type = { fp32: 'float32', fp64: 'float64', string: 'string' }[s.dtype] ?? s.dtype;
    return `\t\t"${s.name}": weftclient.FromSlice(make([]${type}, ${shape.reduce((a, n) => a * n, 1)}), ${shape.join(', ')}),`;
  }).join('\n');
  const fields = { fp32: 'floatValues', fp64: 'doubleValues', int32: 'intValues', int64: 'int64Values', bool: 'boolValues' };
  const spec = inputs[0] ?? { name: '', dtype: '', shape: [] };
  const message = JSON.stringify({ model: { name: model.name }, ...(episode && { episode_id: episode, begin_episode: true }), inputs: { [spec.name]: { dtype: `DATA_TYPE_${spec.dtype.toUpperCase()}`, shape: spec.shape.map((n) => Math.max(1, n)), [fields[spec.dtype] ?? 'raw']: [model.example[spec.name] ?? []].flat(Infinity) } } });
  return [
    ['curl', `curl${auth} -d ${shell(json)} ${url}`],
    ['Python, with requests', `import requests\n\nanswer = requests.post("${url}", json=${json.replace(/\bfalse\b/g, 'False').replace(/\btrue\b/g, 'True')})\nprint(answer.json()["outputs"])`],
    ['Python, with the client of Weft', `# pip install weftserve-client\nimport numpy as np\nimport weft\n\nclient = weft.Client("${address}")\nanswer = client.predict("${model.name}", {${numpy}}${episode ? `, episode="${episode}", begin_episode=True` : ''})\nprint(${given(model.outputs).map((s) => `answer["${s.name}"]`).join(', ')})`],
    ['Go', `client, err := weftclient.New("${address}")\nif err != nil {\n\treturn err\n}\ndefer client.Close()\nanswer, err := client.Predict(ctx, &weftclient.Request{\n\tModel: weftclient.Model("${model.name}"),\n\tInputs: weftclient.Tensors{\n${slices}\n\t},\n${episode ? `\tEpisode: "${episode}", BeginEpisode: true,\n` : ''}})`],
    ['A terminal, without anything else', `weft predict ${model.name} --address ${address}${episode ? ` --episode ${episode} --begin` : ''}${small ? inputs.map((s) => ` --input ${shell(`${s.name}=${JSON.stringify(model.example[s.name])}`)}`).join('') : ''}`],
    inputs.length === 1 && fields[spec.dtype] && small ? ['grpcurl', `grpcurl -plaintext -d ${shell(message)} ${address} weft.v1.PredictionService/Predict`] : null,
  ].filter(Boolean);
}

function drawLines([title, text]) {
  const done = el('span', { role: 'status' });
  return el('details.lines', null, el('summary', null, title), el('pre', { tabindex: '0', 'aria-label': title }, text),
    el('button', { type: 'button', onclick: () => copy(text, (said) => say(done, said === text ? 'Select the lines and copy them.' : 'Copied.')) }, 'Copy'), ' ', done);
}

start();
