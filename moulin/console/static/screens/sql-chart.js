// A simple chart of a result: numbers over a column, as bars or lines.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { Waiting } from "../parts.js";
import { cell, number, plain } from "../text.js";
import { isNumber } from "./sql-result.js";

const WIDE = 1000;
const TALL = 300;
const LEFT = 64;
const BOTTOM = 30;
const MOST_BARS = 60;
const MOST_POINTS = 2000;
const HUES = ["var(--accent)", "var(--l2)", "var(--fresh)", "var(--l3)", "var(--bad)"];

function choose(columns) {
  const numbers = columns.map((one, index) => index).filter((index) => isNumber(columns[index].type));
  const over = columns.findIndex((one) => !isNumber(one.type));
  const x = over < 0 ? 0 : over;
  const ys = numbers.filter((index) => index !== x);
  const isTime = /^(timestamp|date|time)/.test(columns[x]?.type ?? "");
  return { x, ys: (ys.length ? ys : numbers).slice(0, 1), kind: isTime || over < 0 ? "lines" : "bars" };
}

const instant = (value) => {
  const time = Date.parse(String(value).replace(" ", "T").replace(/(\.\d{3})\d+/, "$1"));
  return Number.isNaN(time) ? null : time;
};

const short = (value) => {
  const size = Math.abs(value);
  if (size >= 1e6 || (size < 1e-3 && size > 0)) return value.toExponential(1);
  return number(Number.isInteger(value) ? value : Number(value.toPrecision(3)));
};

// A range that begins and ends at numbers of the form 1, 2, 2.5 or 5 times a power of ten, four of them apart.
function nice(low, high) {
  const rough = (high - low) / 4;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low, high];
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const one of [1, 2, 2.5, 5, 10, 20]) {
    const step = one * power;
    const from = Math.floor(low / step) * step;
    if (step >= rough && from + 4 * step >= high) return [from, from + 4 * step];
  }
  return [low, high];
}

export function ChartView({ result }) {
  const { columns } = result;
  const [asked, ask] = useState(() => choose(columns));
  const [rows, setRows] = useState(null);
  useEffect(() => {
    let live = true;
    result.all().then((found) => live && setRows(found));
    return () => { live = false; };
  }, [result]);
  const numbers = columns.map((one, index) => index).filter((index) => isNumber(columns[index].type));
  if (!numbers.length || !result.total) return html`<p class="dim empty">A chart needs rows with a column of numbers.</p>`;
  const name = (index) => plain(columns[index].name);
  const toggle = (index) => ask({ ...asked, ys: asked.ys.includes(index) ? asked.ys.filter((one) => one !== index) : [...asked.ys, index].slice(-HUES.length) });
  return html`
    <div class="asked">
      <label>Over <select value=${String(asked.x)} onChange=${(e) => ask({ ...asked, x: Number(e.currentTarget.value) })}>
        ${columns.map((one, index) => html`<option key=${index} value=${String(index)}>${plain(one.name)}</option>`)}</select></label>
      <label>As <select value=${asked.kind} onChange=${(e) => ask({ ...asked, kind: e.currentTarget.value })}>
        <option value="bars">bars</option><option value="lines">lines</option></select></label>
      <fieldset class="series"><legend>Numbers</legend>${numbers.slice(0, 24).map((index) => html`
        <label key=${index} class="check"><input type="checkbox" checked=${asked.ys.includes(index)} onChange=${() => toggle(index)} />
          ${asked.ys.includes(index) && html`<i class="dot" style=${`--of:${HUES[asked.ys.indexOf(index)]}`}></i>`}${name(index)}</label>`)}</fieldset>
    </div>
    ${rows === null ? html`<${Waiting} />` : html`<${Picture} rows=${rows} asked=${asked} columns=${columns} />`}`;
}

function Picture({ rows, asked: { x, ys, kind }, columns }) {
  const drawn = useMemo(() => {
    const most = kind === "bars" ? MOST_BARS : MOST_POINTS;
    const times = isNumber(columns[x].type) ? rows.map((row) => Number(row[x])) : rows.map((row) => instant(row[x]));
    const inOrder = kind === "lines" && times.every((one) => one !== null && Number.isFinite(one));
    let kept = rows.map((row, index) => ({ row, at: inOrder ? times[index] : index }));
    if (inOrder) kept.sort((a, b) => a.at - b.at);
    const step = kind === "bars" ? 1 : Math.ceil(kept.length / most);
    kept = kept.filter((_, index) => index % step === 0).slice(0, most);
    return { kept, step, left: kind === "bars" ? rows.length - kept.length : 0 };
  }, [rows, x, kind, columns]);
  const { kept, step, left } = drawn;
  const values = ys.map((index) => kept.map(({ row }) => (row[index] === null ? null : Number(row[index]))));
  const finite = values.flat().filter((one) => one !== null && Number.isFinite(one));
  if (!finite.length) return html`<p class="dim empty">Choose a column of numbers that has values.</p>`;
  const [low, high] = nice(Math.min(0, ...finite), Math.max(0, ...finite));
  const range = high - low || 1;
  const y = (value) => 8 + (TALL - BOTTOM - 8) * (1 - (value - low) / range);
  const first = kept[0].at;
  const length = kept.at(-1).at - first || 1;
  const room = WIDE - LEFT - 12;
  const across = (index) => LEFT + (kind === "bars" ? ((index + 0.5) * room) / kept.length : (room * (kept[index].at - first)) / length);
  const ticks = Array.from({ length: 5 }, (_, index) => low + (range * index) / 4);
  const marks = [...new Set([0, Math.floor((kept.length - 1) / 3), Math.floor((2 * (kept.length - 1)) / 3), kept.length - 1])];
  const wide = Math.max(1, (0.8 * room) / kept.length / Math.max(1, ys.length));
  const label = `${ys.map((index) => plain(columns[index].name)).join(", ")} over ${plain(columns[x].name)}, ${kept.length} points, from ${short(low)} to ${short(high)}`;
  return html`
    <svg class="drawn" viewBox=${`0 0 ${WIDE} ${TALL}`} role="img" aria-label=${label}>
      ${ticks.map((tick, index) => html`<g key=${index}><path class="axis" d=${`M${LEFT} ${y(tick)}H${WIDE - 12}`} /><text x=${LEFT - 8} y=${y(tick) + 4} text-anchor="end">${short(tick)}</text></g>`)}
      ${marks.map((index) => html`<text key=${"x" + index} x=${across(index)} y=${TALL - 8} text-anchor=${index === 0 && kind !== "bars" ? "start" : index === kept.length - 1 ? "end" : "middle"}>${plain(cell(kept[index].row[x])).slice(0, 24)}</text>`)}
      ${values.map((line, of) => (kind === "bars"
        ? html`<path key=${of} fill=${HUES[of]} d=${line.map((value, index) => (value === null || !Number.isFinite(value) ? "" : `M${across(index) - (wide * ys.length) / 2 + of * wide} ${y(0)}h${wide}V${y(value)}h${-wide}z`)).join("")} />`
        : html`<path key=${of} class="curve" stroke=${HUES[of]} d=${line.map((value, index) => (value === null || !Number.isFinite(value) ? "" : `${index && line[index - 1] !== null ? "L" : "M"}${across(index)} ${y(value)}`)).join("")} />`))}
    </svg>
    ${(left > 0 || step > 1) && html`<p class="dim">${left > 0 ? `The first ${number(kept.length)} of ${number(rows.length)} rows.` : `Every ${number(step)}. row of ${number(rows.length)}.`}</p>`}`;
}
