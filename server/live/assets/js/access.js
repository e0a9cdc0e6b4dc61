// The token of servers with an access file. It lives as long as the tab.
const key = 'weft-token';

export function headers() {
  const token = sessionStorage.getItem(key);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export function setToken(token) {
  if (token === '') sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, token);
}
