// How numbers and times are written, in one place.

const UNITS = ["B", "KB", "MB", "GB", "TB"];

export function bytes(count) {
  let value = count ?? 0;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function count(value) {
  return (value ?? 0).toLocaleString("en-US");
}

/** A count in few characters: 950, 1.2k, 34k. */
export function short(value) {
  if (value < 1000) return String(Math.round(value));
  if (value < 1_000_000) return `${value < 10_000 ? (value / 1000).toFixed(1) : Math.round(value / 1000)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function duration(milliseconds) {
  if (milliseconds < 1) return "<1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
  return age(milliseconds / 1000);
}

export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

export function clock(moment) {
  return new Date(moment).toLocaleTimeString("en-GB");
}

export function day(moment) {
  const date = new Date(moment);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? clock(date) : `${date.toLocaleDateString("en-CA")} ${clock(date).slice(0, 5)}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
