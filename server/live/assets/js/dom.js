// Elements without HTML: text from the server only ever becomes text nodes.
export const $ = (id) => document.getElementById(id);

// el makes an element: el('td.num', {title: 'x'}, 'text', child).
export function el(what, attributes, ...children) {
  const [tag, ...classes] = what.split('.');
  const node = document.createElement(tag);
  if (classes.length > 0) node.className = classes.join(' ');
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
  return node;
}

const space = 'http://www.w3.org/2000/svg';

export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// say sets a text, and touches the page only where it changed.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// show hides or shows an element.
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// swatch is the coloured square in front of a version's name.
export function swatch(colour) {
  const node = el('span.swatch', { 'aria-hidden': 'true' });
  node.style.background = colour;
  return node;
}

// whenSeen calls with true and false as an element comes into view and leaves it.
export function whenSeen(node, tell) {
  new IntersectionObserver((entries) => tell(entries.at(-1).isIntersecting), { rootMargin: '200px' }).observe(node);
}
