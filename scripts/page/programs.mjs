// Real servers for the tests, and what their metrics say.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
const startTime = 60000; // ms within which a server must be ready
const kept = 200; // last lines that a program said

// freePort is a port of the loopback address that nobody listens on.
export const freePort = () => new Promise((resolve, reject) => {
  const s = createServer().on('error', reject).listen(0, '127.0.0.1', () => {
    const { port } = s.address();
    s.close(() => resolve(port));
  });
});

// start runs a program of bin in the source tree. said(pattern) waits for a line that matches, ended for its exit status;
// stop() has it end in order.
export function start(name, ...args) {
  const child = spawn(path.join(root, 'bin', name), args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  const hearers = new Set();
  for (const stream of [child.stdout, child.stderr]) {
    let text = '';
    stream.setEncoding('utf8').on('data', (part) => {
      const all = (text + part).split('\n');
      text = all.pop();
      lines.push(...all);
      lines.splice(0, lines.length - kept);
      for (const hear of hearers) all.forEach(hear);
    });
  }
  const ended = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', resolve);
  });
  const tail = () => lines.slice(-20).join('\n');
  const said = (pattern) => new Promise((resolve, reject) => {
    const done = (settle, value) => {
      clearTimeout(limit);
      hearers.delete(hear);
      settle(value);
    };
    const hear = (line) => pattern.test(line) && done(resolve, pattern.exec(line));
    const limit = setTimeout(() => done(reject, new Error(`${name} did not say ${pattern} within a minute:\n${tail()}`)), startTime);
    ended.then((status) => done(reject, new Error(`${name} ended with ${status} before it said ${pattern}:\n${tail()}`)), (e) => done(reject, e));
    hearers.add(hear);
    lines.forEach(hear);
  });
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  return { said, ended, stop, tail };
}

// serve starts a server of the example models on ports, and returns once it is ready.
export async function serve({ grpc, http }) {
  const server = start('weft', 'serve', 'examples/models', '--devices', 'cpu:1', '--listen', `127.0.0.1:${grpc}`, '--http', `127.0.0.1:${http}`,
    '--admin-listen', '', '--state-dir', 'none', '--log-format', 'json');
  try {
    await server.said(/"event":"ready"/);
  } catch (error) {
    server.stop();
    throw error;
  }
  return server;
}

// metrics reads what a server counts: sum(name, labels) adds the values whose labels have those values; a value may be a test.
export async function metrics(url) {
  const text = await fetch(new URL('/metrics', url)).then((r) => r.text());
  const samples = [];
  for (const [, name, labels = '', value] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
    samples.push({ name, value: Number(value), labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, k, v]) => [k, v])) });
  }
  const is = (want, value) => (typeof want === 'function' ? want(value) : want === value);
  const sum = (name, labels = {}) => samples.filter((s) => s.name === name && Object.entries(labels).every(([k, want]) => is(want, s.labels[k])))
    .reduce((all, s) => all + s.value, 0);
  // bucket is where a part of a histogram's values ends: the bounds of the bucket that has it.
  sum.bucket = (name, labels, part) => {
    const bounds = [...new Set(samples.filter((s) => s.name === `${name}_bucket`).map((s) => s.labels.le))].sort((a, b) => Number(a.replace('+', '')) - Number(b.replace('+', '')));
    const all = sum(`${name}_count`, labels);
    const i = bounds.findIndex((le) => sum(`${name}_bucket`, { ...labels, le }) >= part * all);
    return [Number(bounds[i - 1] ?? 0), Number(bounds[i].replace('+', ''))];
  };
  return sum;
}
