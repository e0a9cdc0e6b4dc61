// Commands for a terminal, which can be copied.
import { token } from './access.js';

let grpc = ''; // where the server listens to commands

export const heardAddress = (address) => (grpc = address ?? '');

// command is a line such as weft explain '#7', with what it takes to reach this server.
export function command(line) {
  const any = /^(\[::\]|0\.0\.0\.0):/;
  const address = any.test(grpc) ? grpc.replace(any, `${location.hostname}:`) : grpc;
  return [`weft ${line}`, address === '' || address === '127.0.0.1:9000' ? '' : `--address ${address}`, location.protocol === 'https:' ? '--tls' : '', token() ? '--token-file TOKEN.txt' : ''].filter(Boolean).join(' ');
}

// copy puts a text on the clipboard, and tells what came of it.
export async function copy(text, tell) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`Copied: ${text}`);
  } catch {
    tell(text); // a page that did not come by https from elsewhere may not
  }
}
