// The stream of activity: connects, reads, and connects again for as long as the page is in sight. A server that is asked by
// nobody does no work for nobody: out of sight for half a minute, the page hangs up.
import { headers } from './access.js';
import { heardAddress } from './command.js';

const silence = 6000; // ms without data that mean a dead connection
const patience = 30000; // ms out of sight until it hangs up
const slowest = 10000; // ms between attempts at most

export class Feed {
  // tell.activity(message, first), tell.state(word, detail)
  constructor(tell) {
    this.tell = tell;
    this.wait = 500;
    this.wanted = true;
    this.hangUp = 0;
    document.addEventListener('visibilitychange', () => this.sight(!document.hidden));
  }

  start() {
    this.wanted = true;
    if (!this.running) this.run();
  }

  sight(visible) {
    clearTimeout(this.hangUp);
    if (visible) return this.start();
    this.hangUp = setTimeout(() => {
      this.wanted = false;
      this.abort?.abort();
      this.wake?.();
      this.tell.state('hidden');
    }, patience);
  }

  // retry connects at once, for instance with a new token.
  retry() {
    this.wait = 500;
    this.wake?.();
    this.start();
  }

  async run() {
    this.running = true;
    while (this.wanted) {
      const status = await this.connect();
      if (!this.wanted) break;
      this.tell.state(status === 401 ? 'token' : status === 403 ? 'forbidden' : 'lost', this.detail);
      await this.pause(status === 401 || status === 403 ? 60000 : this.wait * (0.7 + 0.6 * Math.random()));
      this.wait = Math.min(slowest, this.wait * 1.8);
    }
    this.running = false;
    if (!document.hidden && !this.wanted) this.start();
  }

  // connect reads one stream to its end, and returns the status of one that was refused.
  async connect() {
    const abort = new AbortController();
    this.abort = abort;
    let watch = 0;
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(() => abort.abort(), silence);
    };
    try {
      this.detail = '';
      watch = setTimeout(() => abort.abort(), 20000);
      const response = await fetch('activity?back_ms=60000', { headers: headers(), signal: abort.signal, cache: 'no-store' });
      if (!response.ok) {
        this.detail = await response.json().then((b) => b.error, () => '');
        return response.status;
      }
      heardAddress(response.headers.get('Weft-Address'));
      await this.read(response.body.getReader(), alive);
    } catch {
      // The connection failed or was given up: the caller tries again.
    } finally {
      clearTimeout(watch);
      abort.abort();
    }
    return 0;
  }

  async read(reader, alive) {
    const decoder = new TextDecoder();
    let parts = []; // of a message that is not complete
    let first = true;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      let text = decoder.decode(value, { stream: true });
      for (let cut = text.indexOf('\n'); cut >= 0; cut = text.indexOf('\n')) {
        const line = parts.length > 0 ? parts.join('') + text.slice(0, cut) : text.slice(0, cut);
        parts = [];
        text = text.slice(cut + 1);
        if (!line.startsWith('data:')) continue;
        this.tell.activity(JSON.parse(line.slice(5)), first);
        first = false;
        this.wait = 500;
      }
      if (text !== '') parts.push(text);
    }
  }

  pause(time) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, time);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
