// The colours of the canvas: those of the versions, and what the style sheet says of the rest.
import { mix } from '../colour.js';

export class Paint {
  read() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.paper = of('--paper');
    this.lane = of('--lane');
    this.line = of('--line');
    this.text = of('--ink');
    this.muted = of('--muted');
    this.red = of('--red');
    const { fontFamily, fontSize } = getComputedStyle(document.body);
    const unit = parseFloat(fontSize) / 15;
    this.small = `${11 * unit}px ${fontFamily}`;
    this.bold = `600 ${12 * unit}px ${fontFamily}`;
    this.pale = [];
    this.wait = [];
    this.solid = [];
    this.inks = [];
    return this;
  }

  // learn prepares the styles of versions that are new.
  learn(versions) {
    for (let i = this.solid.length; i < versions.length; i++) {
      const c = versions[i].colour;
      this.solid.push(c);
      this.pale.push(mix(c, this.paper, 0.72));
      this.wait.push(mix(c, this.lane, 0.45));
      this.inks.push(versions[i].ink);
    }
    this.solid.length = this.pale.length = this.wait.length = this.inks.length = versions.length;
  }
}
