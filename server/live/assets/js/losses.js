export function startLosses() { return {}; }
