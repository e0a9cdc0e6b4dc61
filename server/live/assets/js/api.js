// The calls of weft.v1.ModelService that read.
import { headers } from './access.js';

// call returns the answer of a method, or null where there is none; other failures are errors for people.
export async function call(method, fields = {}) {
  const query = new URLSearchParams(fields).toString();
  const response = await fetch(`api/${method}${query ? `?${query}` : ''}`, { headers: headers(), cache: 'no-store' });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(await response.json().then((b) => b.error, () => `HTTP ${response.status}`));
  return response.json();
}

// every calls a function now and then while one of the elements is in sight and the page is shown, one call at a time.
export function every(nodes, milliseconds, work) {
  const sights = new Set();
  let seen = false;
  let timer = 0;
  let busy = false;
  const again = () => {
    clearTimeout(timer);
    if (seen && !document.hidden) timer = setTimeout(turn, milliseconds);
  };
  async function turn() {
    if (busy) return;
    busy = true;
    try {
      await work();
    } catch {
      // The feed says that the server cannot be reached; the next turn tries again.
    }
    busy = false;
    again();
  }
  const observer = new IntersectionObserver((entries) => {
    for (const e of entries) sights[e.isIntersecting ? 'add' : 'delete'](e.target);
    const now = sights.size > 0;
    if (now && !seen) setTimeout(turn, 0);
    seen = now;
  }, { rootMargin: '300px' });
  for (const node of [nodes].flat()) observer.observe(node);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && seen) turn();
  });
  return () => seen && !document.hidden && turn();
}
