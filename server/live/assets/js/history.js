export function startHistory() { return {}; }
