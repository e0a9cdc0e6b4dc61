// The time under the pointer, in milliseconds of the run, which all charts with time mark.
const hearers = new Set();
let value = null;

export function setCursor(time, by) {
  if (time === value) return;
  value = time;
  for (const hear of hearers) hear(value, by);
}

export const onCursor = (hear) => hearers.add(hear);
