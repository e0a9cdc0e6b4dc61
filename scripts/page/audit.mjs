// Asks axe for faults of accessibility.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// audit returns the serious and critical faults, a line each.
export async function audit(page) {
  // The page's policy forbids scripts of others; the debugger may run them all the same.
  await page.evaluate(source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 4).map((n) => `${n.target.join(' ')} ${(n.any[0]?.message ?? '').slice(0, 160)}`).join('; ')}`);
}
