export function startModels() { return {}; }
