export function startCost() { return {}; }
