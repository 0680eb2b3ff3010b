// What this browser remembers of the page: the theme, and which columns are shown.

export function readSetting(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function writeSetting(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing shows the page all the same.
  }
}
