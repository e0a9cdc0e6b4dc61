// The token of servers with an access file. It lives as long as the tab.
const key = 'weft-token';

export const token = () => sessionStorage.getItem(key);

export const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

export function setToken(text) {
  if (text === '') sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, text);
}
