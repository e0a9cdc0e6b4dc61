export function startDevices() { return {}; }
