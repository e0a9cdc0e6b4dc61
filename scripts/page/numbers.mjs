// The numbers that both the page and the metrics have.
import { metrics } from './programs.mjs';

// How the page sums up the codes of gRPC.
const ends = { OK: 'answered', DeadlineExceeded: 'expired', Canceled: 'cancelled', Aborted: 'cancelled', Internal: 'failed', Unavailable: 'failed', Unknown: 'failed', DataLoss: 'failed' };

// counted are the numbers of the metrics, by names.
export async function counted(url) {
  const sum = await metrics(url);
  const coded = (end) => sum('weft_requests_total', { code: (c) => (ends[c] ?? 'refused') === end });
  return { offered: sum('weft_requests_offered_total'), answered: coded('answered'), refused: coded('refused'), expired: coded('expired'), cancelled: coded('cancelled'), failed: coded('failed'),
    batches: sum('weft_batch_flush_total'), padding: sum('weft_padding_rows_total'), busy: sum('weft_device_busy_seconds_total') };
}

// shown are the same of the page, once it has a message that was made after now: the next of the server, which makes four a second.
export async function shown(page) {
  await page.waitForFunction((now) => globalThis.weft.store.began + globalThis.weft.store.now > now, {}, Date.now() + 2); // of rounded times
  return page.evaluate(() => {
    const { store } = globalThis.weft;
    const sum = (list, of) => list.reduce((n, x) => n + (of(x) ?? 0), 0);
    const totals = (name) => sum(Object.values(store.totals), (t) => t[name]);
    return { ...Object.fromEntries(['offered', 'answered', 'refused', 'expired', 'cancelled', 'failed'].map((name) => [name, totals(name)])),
      batches: sum(store.present, (v) => v.totals.batches), padding: sum(store.present, (v) => v.totals.paddedRows), busy: sum(store.devices, (d) => d.busySeconds) };
  });
}
