// Light or dark: as the system has it, or as the switch says.
import { $, say } from './dom.js';

const key = 'weft-theme';
const order = ['auto', 'light', 'dark'];

export function startTheme(changed) {
  let mode = localStorage.getItem(key) ?? 'auto';
  const button = $('theme');
  const apply = () => {
    document.documentElement.dataset.theme = mode;
    say(button, `Theme: ${mode}`);
    changed();
  };
  button.addEventListener('click', () => {
    mode = order[(order.indexOf(mode) + 1) % order.length];
    localStorage.setItem(key, mode);
    apply();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}
