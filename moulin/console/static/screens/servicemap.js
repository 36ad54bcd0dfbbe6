// Which service calls which, as a picture and as a list.

import { html, useMemo } from "../vendor/preact.js";
import { query } from "../api.js";
import { Grid, Problem, Waiting } from "../parts.js";
import { useResource } from "../resources.js";
import { number, plain, plural } from "../text.js";
import { listHash } from "./traces.js";
import { colorOf } from "./waterfall.js";

const [WIDE, TALL] = [176, 42]; // of a service
const [APART, BETWEEN] = [262, 62];
const NOTABLE = 0.05; // a part of calls that fail, from which on a line has another colour
const MOST = 60;

const rate = (part, whole) => (part ? `${((part / whole) * 100).toFixed(part / whole < 0.1 ? 1 : 0)} %` : "");

// A column for each step from those that nobody calls; calls that lead back are drawn back.
function lay(services, calls) {
  const names = new Set(services.map((one) => one.service));
  const called = new Map([...names].map((name) => [name, []]));
  const waiting = new Map([...names].map((name) => [name, 0]));
  for (const one of calls) {
    called.get(one.parent)?.push(one.child);
    waiting.set(one.child, waiting.get(one.child) + 1);
  }
  const column = new Map();
  const left = new Set(names);
  let ready = [...names].filter((name) => waiting.get(name) === 0);
  while (left.size) {
    if (!ready.length) ready = [[...left].sort((a, b) => waiting.get(a) - waiting.get(b))[0]]; // a ring of calls
    const name = ready.shift();
    if (!left.delete(name)) continue;
    column.set(name, column.get(name) ?? 0);
    for (const child of called.get(name)) {
      waiting.set(child, waiting.get(child) - 1);
      if (!left.has(child)) continue;
      column.set(child, Math.max(column.get(child) ?? 0, column.get(name) + 1));
      if (waiting.get(child) === 0) ready.push(child);
    }
  }
  const columns = [];
  for (const one of services) (columns[column.get(one.service)] ??= []).push(one);
  const filled = columns.filter(Boolean);
  const most = Math.max(1, ...filled.map((one) => one.length));
  const at = new Map();
  filled.forEach((ones, x) => ones.forEach((one, y) =>
    at.set(one.service, { one, x: 10 + x * APART, y: 10 + ((most - ones.length) / 2 + y) * BETWEEN })));
  return { at, wide: filled.length * APART - APART + WIDE + 20, tall: most * BETWEEN };
}

const steps = (a, b) => Math.round((b.x - a.x) / APART);

// To the next column straight; further on over the services between them, and back below them.
function edge(a, b) {
  const [x, y] = [a.x + WIDE, a.y + TALL / 2];
  const [u, v] = [b.x, b.y + TALL / 2];
  const far = steps(a, b);
  if (far > 1) {
    const high = 18 + 12 * Math.min(5, far);
    return `M${a.x + WIDE / 2 + 16} ${a.y}C${a.x + WIDE / 2 + 50} ${a.y - high} ${b.x + WIDE / 2 - 50} ${b.y - high} ${b.x + WIDE / 2 - 16} ${b.y - 7}`;
  }
  if (u > x) return `M${x} ${y}C${(x + u) / 2} ${y} ${(x + u) / 2} ${v} ${u - 7} ${v}`;
  const deep = 22 + 14 * Math.min(5, -far);
  return `M${a.x + WIDE / 2 - 16} ${a.y + TALL}C${a.x + WIDE / 2 - 40} ${a.y + TALL + deep} ${b.x + WIDE / 2 + 40} ${b.y + TALL + deep} ${b.x + WIDE / 2 + 16} ${b.y + TALL + 7}`;
}

export function ServiceMap({ last, ranges }) {
  const { data, error } = useResource("/traces/map" + query({ last }));
  return html`
    <div class="bar"><h1>Service map</h1><span class="buttons"><a class="button" href="#/traces">All traces</a></span></div>
    <form class="asked"><label>In the last <select value=${last} onChange=${(e) => { location.hash = "#/traces/map/" + e.currentTarget.value; }}>
      ${ranges.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label></form>
    <${Problem} error=${error} />
    ${data ? html`<${Drawn} data=${data} last=${last} />` : !error && html`<${Waiting} />`}`;
}

function Drawn({ data, last }) {
  const { services, calls } = data;
  const { at, wide, tall } = useMemo(() => lay(services.slice(0, MOST), calls.filter((one) =>
    [one.parent, one.child].every((name) => services.findIndex((other) => other.service === name) < MOST))), [data]);
  const most = Math.max(1, ...calls.map((one) => Number(one.calls)));
  const top = calls.some((one) => at.has(one.parent) && at.has(one.child) && steps(at.get(one.parent), at.get(one.child)) > 1) ? 54 : 0;
  if (!services.length) return html`<p class="dim empty">No span began in this range.</p>`;
  return html`
    ${data.notes.map((sentence) => html`<p key=${sentence} class="notice">${plain(sentence)}</p>`)}
    ${services.length > MOST && html`<p class="notice">The first ${MOST} of ${number(services.length)} services are drawn; the list has all calls.</p>`}
    <section class="panel scroll" tabindex="0" aria-label="Picture of the services">
      <svg class="map" style=${`width:${wide}px`} viewBox=${`0 ${-top} ${wide} ${tall + 72 + top}`} role="group" aria-label="Services and their calls">
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
        ${calls.filter((one) => at.has(one.parent) && at.has(one.child)).map((one) => html`
          <path key=${one.parent + "\n" + one.child} class=${"call" + (one.errors / one.calls >= NOTABLE ? " failed" : "")} d=${edge(at.get(one.parent), at.get(one.child))}
            style=${`stroke-width:${(1 + 2.2 * (Math.log(1 + Number(one.calls)) / Math.log(1 + most))).toFixed(1)}px`} marker-end="url(#arrow)">
            <title>${plain(one.parent)} calls ${plain(one.child)}: ${plural(one.calls, "time")}${one.errors > 0 ? `, ${rate(one.errors, one.calls)} failed` : ""}</title></path>`)}
        ${[...at.values()].map(({ one, x, y }) => html`
          <a key=${one.service} href=${listHash({ last, service: one.service })}>
            <rect class="service" x=${x} y=${y} width=${WIDE} height=${TALL} rx="7" />
            <rect x=${x} y=${y} width="5" height=${TALL} rx="2.5" fill=${colorOf(one.service)} />
            <text x=${x + 14} y=${y + 18}>${short(plain(one.service || "no service"))}</text>
            <text class="small" x=${x + 14} y=${y + 34}>${plural(one.spans, "span")}${one.errors ? html`<tspan class="fault"> · ${rate(one.errors, one.spans)} failed</tspan>` : ""}</text>
          </a>`)}
      </svg>
    </section>
    <p class="dim">A line is the thicker the more calls there are, and red where 5 % of them or more failed.</p>
    <h2>Calls</h2>
    <${Grid} label="Calls between services" rows=${calls} tall=${360} empty="No service calls another in this range." columns=${[
      { name: "from", show: (row) => plain(row.parent || "no service") }, { name: "to", show: (row) => plain(row.child || "no service") },
      { name: "calls", kind: "number", show: (row) => number(row.calls) }, { name: "failed", kind: "number", show: (row) => rate(row.errors, row.calls) }]} />`;
}

const short = (name) => (name.length > 20 ? name.slice(0, 19) + "…" : name);
