// What the pointer does: the wheel zooms, dragging pans, resting explains, a click chooses.
import { setCursor } from '../cursor.js';
import { hit } from './hit.js';

const rest = 4000; // ms for which a pointer that was moved counts as meant for the weave

export function startPointer(weave) {
  const node = weave.layers[2];
  const where = (e) => {
    const r = node.getBoundingClientRect();
    return { x: e.clientX - r.left, y: e.clientY - r.top };
  };
  let drag = null;
  let came = -Infinity; // when the pointer was moved last
  node.addEventListener('wheel', (e) => {
    // A page that is scrolled past the weave goes on scrolling: only a pointer that came by itself zooms.
    if (performance.now() - came > rest && document.activeElement !== weave.stage) return;
    came = performance.now();
    e.preventDefault();
    weave.change((v) => v.zoom(1.0015 ** e.deltaY, where(e).x / weave.box.width));
  }, { passive: false });
  node.addEventListener('pointerdown', (e) => {
    drag = { x: e.clientX, moved: false };
    node.setPointerCapture(e.pointerId);
  });
  node.addEventListener('pointermove', (e) => {
    const point = where(e);
    if (e.movementX !== 0 || e.movementY !== 0) came = performance.now();
    if (drag) {
      const by = e.clientX - drag.x;
      if (Math.abs(by) > 3 || drag.moved) {
        drag.moved = true;
        drag.x = e.clientX;
        weave.change((v) => v.pan(-by / weave.box.width));
      }
      return;
    }
    const item = hit(weave.store, weave.rows, weave.window, point.x, point.y);
    weave.hovered = item;
    weave.dirtyOver = true;
    weave.cursor = weave.window.from + point.x / weave.window.scale;
    setCursor(weave.cursor, 'weave');
    weave.card(item ?? weave.chosen, item ? point : null);
    node.style.cursor = item ? 'pointer' : '';
  });
  node.addEventListener('pointerup', (e) => {
    if (drag && !drag.moved) {
      const point = where(e);
      weave.choose(hit(weave.store, weave.rows, weave.window, point.x, point.y));
      if (weave.chosen) weave.change((v) => v.freeze(true));
    }
    drag = null;
  });
  node.addEventListener('pointerleave', () => {
    weave.hovered = weave.cursor = null;
    setCursor(null, 'weave');
    weave.dirtyOver = true;
    weave.card(weave.chosen, null);
  });
}
