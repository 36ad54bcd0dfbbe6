// Values as people read them. Numbers of 64 bits come as text, times as Unix nanoseconds in text.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const escape = (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0");

// Foreign text with control characters, and those that turn the direction of text, as escapes.
export function plain(text) {
  const value = typeof text === "string" ? text : String(text);
  return value.replace(LONE, escape).replace(HIDDEN, escape);
}

// The same with its line ends.
export const lines = (text) => text.split("\n").map(plain).join("\n");

export const cell = (value) =>
  value === null || value === undefined ? "null" : plain(typeof value === "object" ? JSON.stringify(value) : value);

export const number = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

export function size(value) {
  let bytes = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (bytes < 1024 || unit === "TiB") return `${bytes < 10 && unit !== "B" ? bytes.toFixed(1) : Math.round(bytes)} ${unit}`;
    bytes /= 1024;
  }
}

export const millis = (nanos) => Number(BigInt(nanos) / 1000000n);

const two = (one) => String(one).padStart(2, "0");

export function clock(date) {
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// A stored time, in UTC, as the command line has it.
export function moment(nanos) {
  if (nanos === null || nanos === undefined) return "";
  const date = new Date(millis(nanos));
  if (Number.isNaN(date.getTime())) return String(nanos);
  return date.toISOString().slice(0, 19).replace("T", " ") + "Z";
}

// The same to the millisecond, or with all nine digits.
export function instant(nanos, digits = 3) {
  const text = String(nanos);
  const date = new Date(millis(text));
  if (Number.isNaN(date.getTime())) return text;
  const rest = ((BigInt(text) % 1000000000n) + 1000000000n) % 1000000000n;
  return date.toISOString().slice(0, 19).replace("T", " ") + "." + String(rest).padStart(9, "0").slice(0, digits) + "Z";
}

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (whole >= 2 * length) return `${Math.floor(whole / length)} ${unit}`;
  }
  return `${whole} s`;
}

// Nanoseconds that something took, to three digits.
export function took(nanos) {
  const value = Number(nanos);
  for (const [unit, length] of [["min", 6e10], ["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]]) {
    if (Math.abs(value) < length && unit !== "ns") continue;
    const scaled = value / length;
    return `${Math.abs(scaled) >= 100 || unit === "ns" ? number(Math.round(scaled)) : scaled.toPrecision(3)} ${unit}`;
  }
}

export const ago = (nanos, now = Date.now()) => `${span((now - millis(nanos)) / 1000)} ago`;

export const plural = (count, one, many = one + "s") => `${number(count)} ${Number(count) === 1 ? one : many}`;
