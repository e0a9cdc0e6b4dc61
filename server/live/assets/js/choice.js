// A choice among several things of one kind, which is hidden while there are fewer than two.
import { $, el, show } from './dom.js';

const most = 24;

// choice runs a select: of(items) lists [key, text] pairs, the default first, and returns the key that is chosen.
export function choice(id, changed) {
  const select = $(id);
  let shown = '';
  let wanted = ''; // by a person
  select.addEventListener('change', () => {
    wanted = select.value;
    changed();
  });
  return (items) => {
    const kept = items.slice(0, most);
    const key = kept.some(([k]) => k === wanted) ? wanted : (kept[0]?.[0] ?? '');
    const state = JSON.stringify([kept, key]);
    if (state !== shown && document.activeElement !== select) {
      shown = state;
      select.replaceChildren(...kept.map(([k, text]) => el('option', { value: k }, text)));
      select.value = key;
    }
    show(select.parentElement, kept.length > 1);
    return key;
  };
}
