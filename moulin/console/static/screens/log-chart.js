// Records along time, stacked by level. A stretch is chosen by dragging; the table below says the same to screen readers.

import { html, useRef, useState } from "../vendor/preact.js";
import { instant, number, plural } from "../text.js";

export const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "unknown"];
const WIDTH = 1000;
const HEIGHT = 120;
const LEFT = 46;
const BOTTOM = 20;

function ceiling(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= most);
}

// Times of ticks that people can read, in Unix milliseconds.
function ticks(start, end) {
  const steps = [1, 5, 10, 50, 100, 500, 1e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 18e5, 36e5, 108e5, 216e5, 432e5, 864e5, 6048e5, 2592e6, 31536e6, 31536e7];
  const step = steps.find((one) => (end - start) / one <= 8) ?? (end - start) / 8;
  const found = [];
  for (let at = Math.ceil(start / step) * step; at <= end; at += step) found.push(at);
  return { found, step };
}

function label(at, step) {
  const text = new Date(at).toISOString();
  if (step >= 864e5) return text.slice(0, 10);
  if (step >= 6e4) return text.slice(11, 16);
  return step >= 1000 ? text.slice(11, 19) : text.slice(11, 23);
}

export function Chart({ data, choose }) {
  const box = useRef(null);
  const [drag, setDrag] = useState(null);
  const [hovered, hover] = useState(null);
  const start = Number(BigInt(data.start) / 1000n) / 1000;
  const end = Number(BigInt(data.end) / 1000n) / 1000;
  const first = Number(BigInt(data.first) / 1000n) / 1000;
  const step = Number(data.step) / 1e6;
  const width = data.levels.reduce((most, one) => Math.max(most, one.counts.length), 0);
  const sums = Array.from({ length: width }, (_, at) => data.levels.reduce((sum, one) => sum + one.counts[at], 0));
  const top = ceiling(Math.max(1, ...sums));
  const x = (at) => LEFT + ((at - start) / (end - start)) * (WIDTH - LEFT);
  const y = (count) => (HEIGHT - BOTTOM) * (1 - count / top);
  const below = new Array(width).fill(0);
  const bars = LEVELS.map((level) => {
    const found = data.levels.find((one) => one.level === level);
    if (!found) return null;
    let path = "";
    found.counts.forEach((count, at) => {
      if (!count) return;
      const from = Math.max(LEFT, x(first + at * step)) + 0.5;
      const to = Math.max(from + 1, Math.min(WIDTH, x(first + (at + 1) * step)) - 0.5);
      const low = y(below[at]);
      below[at] += count;
      const high = Math.min(y(below[at]), low - 1);
      path += `M${from.toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}H${to.toFixed(1)}V${low.toFixed(1)}z`;
    });
    return html`<path key=${level} class=${"bar-" + level} d=${path} />`;
  });
  const { found, step: apart } = ticks(start, end);
  const at = (event) => {
    const frame = box.current.getBoundingClientRect();
    const part = (((event.clientX - frame.left) / frame.width) * WIDTH - LEFT) / (WIDTH - LEFT);
    return start + Math.min(1, Math.max(0, part)) * (end - start);
  };
  const down = (event) => {
    event.currentTarget.setPointerCapture?.(event.pointerId);
    setDrag({ from: at(event), to: at(event) });
  };
  const move = (event) => {
    const now = at(event);
    if (drag) setDrag({ ...drag, to: now });
    const index = Math.floor((now - first) / step);
    hover(index >= 0 && index < width ? index : null);
  };
  const up = () => {
    if (!drag) return;
    const [low, high] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    setDrag(null);
    if (x(high) - x(low) >= 6) choose(nanos(low), nanos(high));
  };
  const told = hovered === null ? null : data.levels.filter((one) => one.counts[hovered]).map((one) => `${one.level} ${number(one.counts[hovered])}`);
  return html`
    <figure class="chart">
      <svg ref=${box} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
        aria-label=${`${plural(data.total, "record")} along time: ${data.levels.map((one) => `${one.level} ${number(sum(one.counts))}`).join(", ") || "none"}`}
        onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${() => setDrag(null)} onPointerLeave=${() => hover(null)}>
        <path class="axis" d=${`M${LEFT} ${y(0)}H${WIDTH}M${LEFT} ${y(top)}H${WIDTH}${found.map((one) => `M${x(one).toFixed(1)} 0V${y(0)}`).join("")}`} />
        ${bars}
        ${drag && html`<rect class="brush" x=${Math.min(x(drag.from), x(drag.to))} y="0" width=${Math.abs(x(drag.to) - x(drag.from))} height=${y(0)} />`}
      </svg>
      <div class="chart-marks" aria-hidden="true">
        <span style="left:0;top:0">${number(top)}</span><span style=${`left:0;top:${((HEIGHT - BOTTOM) / HEIGHT) * 100 - 12}%`}>0</span>
        ${found.map((one) => html`<span key=${one} class="tick" style=${`left:${x(one) / 10}%;bottom:0`}>${label(one, apart)}</span>`)}
      </div>
      <figcaption class="dim">${hovered === null
        ? `${plural(data.total, "record")} in steps of ${span(step)}, times in UTC. Drag to choose a stretch.`
        : `${instant(nanos(first + hovered * step))}: ${told.join(", ") || "none"}`}</figcaption>
    </figure>`;
}

const sum = (counts) => counts.reduce((all, one) => all + one, 0);

// Milliseconds with a part, as Unix nanoseconds in text.
export const nanos = (millis) => String(BigInt(Math.round(millis * 1000)) * 1000n);

export function span(millis) {
  for (const [unit, length] of [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1000], ["ms", 1], ["µs", 0.001]]) {
    if (millis >= length) return `${+(millis / length).toFixed(2)} ${unit}`;
  }
  return `${Math.round(millis * 1e6)} ns`;
}
