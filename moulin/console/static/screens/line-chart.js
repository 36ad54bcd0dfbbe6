// Lines along time, with a point for each exemplar. A stretch is chosen by dragging, or with the keys, as in the chart of logs.

import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { instant, plain } from "../text.js";
import { label, nanos, span, ticks } from "./axis.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [1000, 260, 70, 24];
const COLORS = 8;
const MOST_SHOWN = 12; // lines of the legend before all are asked for

const PARTS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SECONDS = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };

// A value to three digits, in its unit as people say it.
export function amount(value, unit = "", stat = "") {
  if (value === null || value === undefined) return "–";
  const each = stat === "rate" ? "/s" : "";
  if (unit in SECONDS && stat !== "rate" && stat !== "increase") {
    const seconds = value * SECONDS[unit];
    for (const [name, length] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) if (Math.abs(seconds) >= length) return `${+(seconds / length).toPrecision(3)} ${name}`;
    return seconds === 0 ? "0 s" : `${+(seconds * 1e9).toPrecision(3)} ns`;
  }
  const bytes = unit === "By";
  const scale = bytes ? [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]] : PARTS;
  const [length, name] = scale.find(([size]) => Math.abs(value) >= size) ?? [1, bytes ? "B" : ""];
  const shown = Math.abs(value) < 1e-3 && value !== 0 ? value.toExponential(1) : String(+(value / length).toPrecision(3));
  const rest = bytes || unit === "1" || /^\{.*\}$/.test(unit) ? "" : stat === "rate" && unit in SECONDS ? "" : unit;
  return `${shown}${name ? (bytes ? " " : "") + name : ""}${rest ? " " + plain(rest) : ""}${each}`;
}

// Between which values a scale goes, in readable steps.
function scale(low, high) {
  if (!(high > low)) [low, high] = high === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, high)];
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const [from, to] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
  return { from, to, marks: Array.from({ length: Math.round((to - from) / step) + 1 }, (_, at) => from + at * step) };
}

export const nameOf = (line) => [
  ...Object.values(line.labels).map((value) => (value === null ? "none" : plain(value))),
  ...(line.quantile === null ? [] : [`p${+(line.quantile * 100).toPrecision(6)}`]),
].join(" · ") || "all series";

const millis = (text) => Number(BigInt(text) / 1000n) / 1000;

export function LineChart({ data, choose }) {
  const box = useRef(null);
  const [drag, setDrag] = useState(null);
  const [hovered, hover] = useState(null);
  const [marked, mark] = useState(null);
  const [all, showAll] = useState(false);
  const [start, end, first, step] = [millis(data.start), millis(data.end), millis(data.first), Number(data.step) / 1e6];
  const width = data.lines[0]?.values.length ?? 0;
  const x = (at) => LEFT + ((at - start) / (end - start)) * (WIDTH - LEFT);
  const { y, marks, paths } = useMemo(() => draw(data, x, first, step), [data]);
  const { found, step: apart } = ticks(start, end);
  const at = (event) => {
    const frame = box.current.getBoundingClientRect();
    const part = (((event.clientX - frame.left) / frame.width) * WIDTH - LEFT) / (WIDTH - LEFT);
    return start + Math.min(1, Math.max(0, part)) * (end - start);
  };
  const stretch = (low, high) => choose(nanos(Math.max(start, low)), nanos(Math.min(end, high)));
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
    if (x(high) - x(low) >= 6) stretch(low, high);
  };
  const leave = () => { hover(null); mark(null); };
  const key = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -width, End: width }[event.key];
    if (by) {
      const next = Math.min(width - 1, Math.max(0, (hovered ?? (by < 0 ? width : -1)) + by));
      mark(event.shiftKey ? marked ?? hovered ?? next : null);
      hover(next);
    } else if (event.key === "Enter" && hovered !== null) {
      const [low, high] = [Math.min(hovered, marked ?? hovered), Math.max(hovered, marked ?? hovered) + 1];
      stretch(first + low * step, first + high * step);
    } else if (event.key === "Escape" && hovered !== null) leave();
    else return;
    event.preventDefault();
  };
  const chosen = drag ? [x(drag.from), x(drag.to)].sort((one, other) => one - other)
    : hovered === null ? null : [x(first + Math.min(hovered, marked ?? hovered) * step), x(first + (Math.max(hovered, marked ?? hovered) + 1) * step)];
  const sentence = hovered === null ? `Steps of ${span(step)}, times in UTC. Drag to choose a stretch.` : `From ${instant(nanos(first + hovered * step))}, for ${span(step)}.`;
  const shown = all ? data.lines : data.lines.slice(0, MOST_SHOWN);
  const spoken = hovered === null ? sentence : `${sentence} ${shown.map((one) => `${nameOf(one)} ${amount(one.values[hovered], data.unit, data.stat)}`).join(", ")}`;
  return html`
    <figure class="chart lines">
      <svg ref=${box} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" tabindex="0" role="slider" aria-valuemin="0" aria-valuemax=${Math.max(1, width - 1)}
        aria-valuenow=${hovered ?? 0} aria-valuetext=${spoken} aria-label=${`${plain(data.name)} along time, ${data.lines.length} lines`}
        onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${() => setDrag(null)} onPointerLeave=${leave} onKeyDown=${key} onBlur=${leave}>
        <path class="axis" d=${marks.map((one) => `M${LEFT} ${y(one).toFixed(1)}H${WIDTH}`).join("") + found.map((one) => `M${x(one).toFixed(1)} 0V${HEIGHT - BOTTOM}`).join("")} />
        ${paths.map((path, index) => html`<path key=${index} class=${"line line-" + (index % COLORS)} d=${path} />`)}
        ${chosen && html`<rect class="brush" x=${Math.max(LEFT, chosen[0])} y="0" width=${Math.max(0, Math.min(WIDTH, chosen[1]) - Math.max(LEFT, chosen[0]))} height=${HEIGHT - BOTTOM} />`}
      </svg>
      <div class="chart-marks" aria-hidden="true">
        ${marks.map((one) => html`<span key=${one} class="mark" style=${`top:${(y(one) / HEIGHT) * 100}%`}>${amount(one, data.unit, data.stat)}</span>`)}
        ${found.map((one) => html`<span key=${one} class="tick" style=${`left:${x(one) / 10}%;bottom:0`}>${label(one, apart)}</span>`)}
        ${data.stat === "quantile" && data.exemplars.map((one, index) => html`<i key=${index} style=${`left:${x(millis(one.time)) / 10}%;top:${Math.min(100 - (BOTTOM / HEIGHT) * 100, Math.max(0, (y(one.value) / HEIGHT) * 100))}%`}></i>`)}
      </div>
      <figcaption class="dim">${sentence}</figcaption>
    </figure>
    ${data.lines.length === 0 ? html`<p class="dim">No value is in this range.</p>` : html`<ul class="lines-legend">${shown.map((one, index) => html`
      <li key=${index}><i class=${"line-" + (index % COLORS)}></i><span>${nameOf(one)}</span> <b>${amount(one.values[hovered ?? lastOf(one.values)], data.unit, data.stat)}</b></li>`)}</ul>`}
    ${data.lines.length > shown.length && html`<button class="small" onClick=${() => showAll(true)}>Name all ${data.lines.length} lines</button>`}`;
}

const lastOf = (values) => values.findLastIndex((one) => one !== null);

function draw(data, x, first, step) {
  let [low, high] = [0, -Infinity];
  if (data.kind === "gauge") low = Infinity;
  for (const { values } of data.lines) for (const one of values) if (one !== null) {
    low = Math.min(low, one);
    high = Math.max(high, one);
  }
  const { from, to, marks } = scale(Number.isFinite(low) ? low : 0, Number.isFinite(high) ? high : 1);
  const y = (value) => 4 + (HEIGHT - BOTTOM - 4) * (1 - (value - from) / (to - from));
  const paths = data.lines.map(({ values }) => {
    let path = "";
    let before = false;
    values.forEach((value, at) => {
      if (value === null) {
        before = false;
        return;
      }
      const place = `${Math.max(LEFT, Math.min(WIDTH, x(first + (at + 0.5) * step))).toFixed(1)} ${y(value).toFixed(1)}`;
      path += before ? `L${place}` : `M${place}h.1`;
      before = true;
    });
    return path;
  });
  return { y, marks, paths };
}
