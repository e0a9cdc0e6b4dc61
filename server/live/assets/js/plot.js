// Charts in SVG that are drawn anew when their width changes.
import { svg } from './dom.js';

// plot makes an SVG of a height in a node, and draws it now and whenever it gets another width: draw(add, width).
export function plot(node, height, label, draw) {
  const root = svg('svg', { height, width: '100%', role: 'img', 'aria-label': label });
  node.replaceChildren(root);
  let last = 0;
  const render = () => {
    const width = node.clientWidth;
    if (width === last || width === 0) return;
    last = width;
    root.setAttribute('viewBox', `0 0 ${width} ${height}`);
    root.replaceChildren();
    draw((tag, attributes, ...children) => {
      const child = svg(tag, attributes, ...children);
      root.append(child);
      return child;
    }, width);
  };
  node.observer?.disconnect();
  node.observer = new ResizeObserver(render);
  node.observer.observe(node);
  render();
}

// path joins points to the d of a path.
export const path = (points) => points.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
