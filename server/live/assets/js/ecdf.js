// The distribution of differences: which part of the requests differs by at most so much, and the same of the live version
// against itself. The gap between the curves is the finding.
import { path, plot } from './plot.js';

export function drawEcdf(node, output, tolerance) {
  const shadow = curve(output.errors);
  const noise = output.noise ? curve(output.noise) : null;
  const { from, to } = output.errors;
  const label = `Part of the requests by largest difference: ${Math.round(1000 * at(shadow, tolerance)) / 10} % are within the tolerance of ${tolerance}.`;
  plot(node, 138, label, (add, width) => {
    const [left, right, top, bottom] = [58, 12, 10, 100];
    const x = (v) => left + ((width - left - right) * Math.log(v / from)) / Math.log(to / from);
    const y = (part) => bottom - (bottom - top) * part;
    for (const part of [0, 0.5, 1]) {
      add('line', { class: 'grid', x1: left, x2: width - right, y1: y(part), y2: y(part) });
      add('text', { x: left - 8, y: y(part) + 4, 'text-anchor': 'end' }, `${part * 100} %`);
    }
    for (let e = Math.ceil(Math.log10(from)); e <= Math.log10(to); e += 2) add('text', { x: x(10 ** e), y: bottom + 16, 'text-anchor': 'middle' }, `10${superscript(e)}`);
    if (noise) add('path', { class: 'noise', d: path(noise.map(([v, p]) => [x(v), y(p)])) });
    add('path', { class: 'shadow-line', d: path(shadow.map(([v, p]) => [x(v), y(p)])) });
    add('line', { class: 'limit', x1: x(tolerance), x2: x(tolerance), y1: top - 4, y2: bottom });
    const end = x(tolerance) > width - 110;
    add('text', { class: 'limit-text', x: x(tolerance) + (end ? -6 : 6), y: bottom - 8, 'text-anchor': end ? 'end' : 'start' }, 'tolerance');
    add('text', { x: width < 480 ? 0 : left, y: 134 }, `largest difference of a request, as a part of the answer${noise && width >= 480 ? ' · grey: live version against itself' : ''}`);
  });
}

// curve gives points of the distribution: difference, part of all up to it.
function curve(d) {
  const bins = (d.bins ?? []).map(Number);
  const n = bins.length;
  const total = Number(d.equal ?? 0) + Number(d.below ?? 0) + Number(d.above ?? 0) + bins.reduce((a, b) => a + b, 0) || 1;
  let sum = Number(d.equal ?? 0) + Number(d.below ?? 0);
  const points = [[d.from, sum / total]];
  bins.forEach((b, i) => {
    sum += b;
    points.push([d.from * (d.to / d.from) ** ((i + 1) / n), sum / total]);
  });
  return points;
}

const at = (points, value) => points.findLast(([v]) => v <= value)?.[1] ?? 0;

const superscript = (n) => [...String(n)].map((c) => (c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c])).join('');
