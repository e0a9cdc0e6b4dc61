// The layer behind the weave, which stands still: the lanes, the lines of the grid and the times, counted from the right edge.
import { clock, ms } from '../format.js';
import { step } from './view.js';

export function drawBackdrop(g, { box, paint, rows, view, store }) {
  const { left, width, height } = box;
  g.clearRect(0, 0, width, height);
  g.fillStyle = paint.lane;
  for (const row of rows.deviceRows) g.fillRect(0, rows.laneTop[row.lane] + 13, width, rows.laneHeight[row.lane] - 17);
  for (const id of rows.shown) g.fillRect(0, rows.versionTop[id], width, rows.versionHeight[id]);
  const each = step(view.span, Math.max(2, Math.floor(width / 130)));
  g.font = paint.small;
  for (let t = 0; t <= view.span; t += each) {
    const x = width - (t / view.span) * width;
    g.fillStyle = paint.line;
    rule(g, rows, left, Math.round(x), height - 20);
    if (x < 20) continue;
    g.fillStyle = paint.muted;
    g.textAlign = x > width - 20 ? 'right' : 'center';
    g.fillText(t === 0 ? (view.still ? clock(store.began + view.end) : 'now') : `\u2212${ms(t)}`, x, height - 5);
  }
}

// rule draws a line of the grid: through the lanes only where their labels lie between them.
function rule(g, rows, left, x, height) {
  if (left > 0) return g.fillRect(x, 0, 1, height);
  for (const row of rows.deviceRows) g.fillRect(x, rows.laneTop[row.lane] + 13, 1, rows.laneHeight[row.lane] - 17);
  for (const id of rows.shown) g.fillRect(x, rows.versionTop[id], 1, rows.versionHeight[id]);
}
