// Records along time, stacked by level. A stretch is chosen by dragging, or with the keys: arrows go from step to step,
// with Shift they choose, Enter shows what is chosen.

import { html, useRef, useState } from "../vendor/preact.js";
import { instant, number, plural } from "../text.js";
import { ceiling, label, nanos, span, ticks } from "./axis.js";

export const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "unknown"];
const WIDTH = 1000;
const HEIGHT = 120;
const LEFT = 46;
const BOTTOM = 20;

export function Chart({ data, choose }) {
  const box = useRef(null);
  const [drag, setDrag] = useState(null);
  const [hovered, hover] = useState(null);
  const [marked, mark] = useState(null); // where a stretch that is chosen with keys begins
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
  const key = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -width, End: width }[event.key];
    if (by) {
      const next = Math.min(width - 1, Math.max(0, (hovered ?? (by < 0 ? width : -1)) + by));
      mark(event.shiftKey ? marked ?? hovered ?? next : null);
      hover(next);
    } else if (event.key === "Enter" && hovered !== null) {
      const [low, high] = [Math.min(hovered, marked ?? hovered), Math.max(hovered, marked ?? hovered) + 1];
      choose(nanos(Math.max(start, first + low * step)), nanos(Math.min(end, first + high * step)));
    } else if (event.key !== "Escape" || hovered === null) return;
    else {
      hover(null);
      mark(null);
    }
    event.preventDefault();
  };
  const told = hovered === null ? null : data.levels.filter((one) => one.counts[hovered]).map((one) => `${one.level} ${number(one.counts[hovered])}`);
  const chosen = drag ? [x(drag.from), x(drag.to)].sort((one, other) => one - other)
    : hovered === null ? null : [x(first + Math.min(hovered, marked ?? hovered) * step), x(first + (Math.max(hovered, marked ?? hovered) + 1) * step)];
  const sentence = hovered === null
    ? `${plural(data.total, "record")} in steps of ${span(step)}, times in UTC. Drag to choose a stretch.`
    : `${instant(nanos(first + hovered * step))}: ${told.join(", ") || "none"}`;
  return html`
    <figure class="chart">
      <svg ref=${box} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" tabindex="0" role="slider" aria-valuemin="0" aria-valuemax=${Math.max(1, width - 1)}
        aria-valuenow=${hovered ?? 0} aria-valuetext=${sentence} aria-label=${`${plural(data.total, "record")} along time: ${data.levels.map((one) => `${one.level} ${number(sum(one.counts))}`).join(", ") || "none"}`}
        onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${() => setDrag(null)} onPointerLeave=${() => { hover(null); mark(null); }}
        onKeyDown=${key} onBlur=${() => { hover(null); mark(null); }}>
        <path class="axis" d=${`M${LEFT} ${y(0)}H${WIDTH}M${LEFT} ${y(top)}H${WIDTH}${found.map((one) => `M${x(one).toFixed(1)} 0V${y(0)}`).join("")}`} />
        ${bars}
        ${chosen && html`<rect class="brush" x=${Math.max(LEFT, chosen[0])} y="0" width=${Math.max(0, Math.min(WIDTH, chosen[1]) - Math.max(LEFT, chosen[0]))} height=${y(0)} />`}
      </svg>
      <div class="chart-marks" aria-hidden="true">
        <span style="left:0;top:0">${number(top)}</span><span style=${`left:0;top:${((HEIGHT - BOTTOM) / HEIGHT) * 100 - 12}%`}>0</span>
        ${found.map((one) => html`<span key=${one} class="tick" style=${`left:${x(one) / 10}%;bottom:0`}>${label(one, apart)}</span>`)}
      </div>
      <figcaption class="dim">${sentence}</figcaption>
    </figure>`;
}

const sum = (counts) => counts.reduce((all, one) => all + one, 0);
