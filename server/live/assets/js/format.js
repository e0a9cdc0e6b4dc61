// Numbers and times in words. Spaces before units are narrow and never break.
const thin = '\u202f';

export function ms(value) {
  if (value === 0) return `0${thin}ms`;
  const size = Math.abs(value);
  if (size >= 1000) return `${trim(value / 1000, 1)}${thin}s`;
  return `${trim(value, size < 1 ? 2 : size < 10 ? 1 : 0)}${thin}ms`;
}

export const percent = (part, digits = 0) => `${trim(part * 100, part > 0 && part < 0.01 ? 1 : digits)}${thin}%`;

export const count = (value) => Math.round(value).toLocaleString('en-US').replaceAll(',', thin);

export const rate = (value) => (value >= 100 ? count(value) : trim(value, value < 10 ? 1 : 0));

export function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; value >= 1000 && i < units.length - 1; i++) value /= 1000;
  return `${trim(value, value < 10 && i > 0 ? 1 : 0)}${thin}${units[i]}`;
}

export const signed = (value, digits) => `${value < 0 ? '\u2212' : value > 0 ? '+' : ''}${Math.abs(value).toFixed(digits)}`;

// plural gives "1 request" and "2 requests".
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// steps gives what a pipeline is made of, such as "encoder/3 → head/7 ×10".
export const steps = (all) => all.map((s) => `${s.model}/${s.version}${s.repeat > 1 ? `${thin}×${s.repeat}` : ''}${s.condition ? ` where ${s.condition}` : ''}`).join(' → ');

// short keeps both ends of a long name: the end has the version.
export const short = (name, most = 22) => (name.length <= most ? name : `${name.slice(0, Math.ceil(most / 2) - 1)}…${name.slice(name.length - Math.floor(most / 2))}`);

// clock is a time of the day, hours to seconds.
export function clock(unixMs) {
  return new Date(unixMs).toLocaleTimeString('en-GB', { hour12: false });
}

export function ago(milliseconds) {
  const s = milliseconds / 1000;
  if (s < 1.5) return 'just now';
  if (s < 90) return `${Math.round(s)}${thin}s ago`;
  return s < 5400 ? `${Math.round(s / 60)}${thin}min ago` : `${Math.round(s / 3600)}${thin}h ago`;
}

// list joins with commas and "and".
export function list(items) {
  if (items.length < 2) return items.join('');
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}

function trim(value, digits) {
  const text = value.toFixed(digits);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
