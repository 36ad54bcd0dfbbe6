// What charts along time share: readable ticks, and Unix milliseconds as text.

// The next number of the form 1, 2 or 5 times a power of ten.
export function ceiling(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= most);
}

// Times of ticks that people can read, in Unix milliseconds.
export function ticks(start, end) {
  const steps = [1, 5, 10, 50, 100, 500, 1e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 108e5, 216e5, 432e5, 864e5, 6048e5, 2592e6, 31536e6, 31536e7];
  const step = steps.find((one) => (end - start) / one <= 8) ?? (end - start) / 8;
  const found = [];
  for (let at = Math.ceil(start / step) * step; at <= end; at += step) found.push(at);
  return { found, step };
}

export function label(at, step) {
  const text = new Date(at).toISOString();
  if (step >= 864e5) return text.slice(0, 10);
  if (step >= 6e4) return text.slice(11, 16);
  return step >= 1000 ? text.slice(11, 19) : text.slice(11, 23);
}

// Milliseconds with a part, as Unix nanoseconds in text.
export const nanos = (millis) => String(BigInt(Math.round(millis * 1000)) * 1000n);

export function span(millis) {
  for (const [unit, length] of [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1000], ["ms", 1], ["µs", 0.001]]) {
    if (millis >= length) return `${+(millis / length).toFixed(2)} ${unit}`;
  }
  return `${Math.round(millis * 1e6)} ns`;
}

// What the element of a picture needs so that the arrow keys go from one of its parts to the next: `at` is the index of the one that
// is shown, `say` what is said of it.
export function stepped(parts, at, choose, say) {
  const onKeyDown = (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: parts.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(parts[Math.max(0, Math.min(parts.length - 1, to))]);
  };
  return {
    tabindex: 0, role: "slider", onKeyDown, "aria-valuemin": 0, "aria-valuemax": Math.max(1, parts.length - 1), "aria-valuenow": Math.max(0, at), "aria-valuetext": say,
  };
}
