// The last seconds as a trace: as a file, or handed to Perfetto in another tab. The data goes from tab to tab; no server gets it.
import { headers } from './access.js';

const site = 'https://ui.perfetto.dev';
const fileName = 'weft-trace.json.gz';

async function trace(weave) {
  // As far back as the picture reaches.
  const seconds = Math.max(10, Math.min(60, Math.ceil((weave.store.now - weave.view.start) / 1000)));
  const response = await fetch(`trace.json.gz?seconds=${seconds}`, { headers: headers(), cache: 'no-store' });
  if (!response.ok) throw new Error(`The server gave no trace (HTTP ${response.status}).`);
  return response.arrayBuffer();
}

export async function download(weave, toast) {
  const url = URL.createObjectURL(new Blob([await trace(weave)], { type: 'application/gzip' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  toast(`Downloaded ${fileName}`);
}

export async function openInPerfetto(weave, toast) {
  // The tab must be opened by the key itself, else browsers block it.
  const tab = window.open(site);
  if (!tab) throw new Error('The browser blocked the new tab. Allow it, or download the trace.');
  const buffer = await trace(weave);
  await new Promise((resolve, reject) => {
    const ping = setInterval(() => tab.postMessage('PING', site), 200);
    const done = (f, value) => {
      clearInterval(ping);
      clearTimeout(limit);
      window.removeEventListener('message', hear);
      f(value);
    };
    const limit = setTimeout(() => done(reject, new Error('Perfetto did not answer. Download the trace instead.')), 30000);
    const hear = (e) => e.origin === site && e.data === 'PONG' && done(resolve);
    window.addEventListener('message', hear);
  });
  tab.postMessage({ perfetto: { buffer, title: 'Weft', fileName } }, site);
  toast('Opened in Perfetto');
}
