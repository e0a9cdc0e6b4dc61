// Canvases with the pixels of the screen.

// fit gives a canvas a size in CSS pixels; returns its context, on which one unit is one CSS pixel.
export function fit(canvas, width, height, limit = 2) {
  const ratio = Math.min(limit, window.devicePixelRatio || 1);
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}
