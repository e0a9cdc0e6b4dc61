// The colour of a version: the seven of Okabe and Ito without black, by FNV-1a (32 bit) of the UTF-8 text "model vN" modulo 7.
// Terminals and Grafana use the same rule, so a version has one colour everywhere.
const palette = ['#E69F00', '#56B4E9', '#009E73', '#F0E442', '#0072B2', '#D55E00', '#CC79A7'];
export const names = ['orange', 'sky blue', 'green', 'yellow', 'blue', 'vermillion', 'purple'];

const encoder = new TextEncoder();

export function hue(label) {
  let hash = 0x811c9dc5;
  for (const byte of encoder.encode(label)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash % palette.length;
}

export const colour = (label) => palette[hue(label)];

// ink is the text colour that reads best on a colour.
export function ink(hex) {
  const [r, g, b] = channels(hex).map((c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.21 ? '#16181c' : '#ffffff';
}

// mix blends two colours; part 0 is the first.
export function mix(a, b, part) {
  const x = channels(a);
  const y = channels(b);
  return `#${x.map((c, i) => Math.round(c + (y[i] - c) * part).toString(16).padStart(2, '0')).join('')}`;
}

function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
