export function startService() { return {}; }
