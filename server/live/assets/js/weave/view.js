// The time that the weave shows: it flows at the right edge of what is known, or stands still.
const least = 10;
const most = 60000;
const delay = 350; // ms behind the server, so that the picture flows between two messages

export class View {
  constructor() {
    this.span = 2000;
    this.still = 0; // the right edge while it stands still; 0: it flows
    this.offset = null; // server time less performance.now()
    this.last = 0;
  }

  // heard notes the server's time when a message came; late messages do not pull the clock back at once.
  heard(now, restarted) {
    const offset = now - performance.now();
    if (this.offset === null || restarted || Math.abs(offset - this.offset) > 2000) this.offset = offset;
    else this.offset += (offset - this.offset) * (offset > this.offset ? 0.3 : 0.03);
    this.last = now;
  }

  reset() {
    this.offset = null;
    this.still = 0;
  }

  // flowing is the right edge of a view that flows.
  flowing() {
    return this.offset === null ? this.last : Math.min(this.last, performance.now() + this.offset - delay);
  }

  get end() {
    return this.still || this.flowing();
  }

  get start() {
    return this.end - this.span;
  }

  freeze(on = !this.still) {
    this.still = on ? this.end : 0;
  }

  // zoom keeps the time at a part of the width where it is; a flowing view keeps its right edge.
  zoom(factor, part = 1) {
    const span = Math.max(least, Math.min(most, this.span * factor));
    if (this.still) this.still += (span - this.span) * (1 - part);
    this.span = span;
  }

  pan(part) {
    this.freeze(true);
    const oldest = Math.min(this.still, this.last - most + this.span);
    this.still = Math.min(this.flowing(), Math.max(oldest, this.still + part * this.span));
  }
}

// steps of the axis: at most `lines` of them.
export function step(span, lines) {
  const rough = span / lines;
  const ten = 10 ** Math.floor(Math.log10(rough));
  return ten * [1, 2, 5, 10].find((m) => m * ten >= rough);
}
