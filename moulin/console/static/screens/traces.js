// Traces: found by service, operation, duration and failure; one as a waterfall; the map of services.

import { html, useMemo, useState } from "../vendor/preact.js";
import { Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { query } from "../api.js";
import { moment, number, plain, plural, took } from "../text.js";
import { ServiceMap } from "./servicemap.js";
import { Trace } from "./trace.js";
import { colorOf } from "./waterfall.js";

const RANGES = [["900", "15 minutes"], ["3600", "hour"], ["21600", "6 hours"], ["86400", "day"], ["604800", "7 days"], ["2592000", "30 days"]];
const FIELDS = ["last", "service", "operation", "min_duration", "max_duration", "failed", "attribute"];
const UNITS = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, m: 60e9 };

// Nanoseconds of a text such as 1.5s, 200ms or 3m; undefined when it is none. A bare number is milliseconds.
export function nanos(text) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m)?\s*$/.exec(text);
  return found ? String(Math.round(Number(found[1]) * UNITS[found[2] ?? "ms"])) : undefined;
}

export const listHash = (asked) => "#/traces/find/" + encodeURIComponent(query(asked).slice(1));

export const traceHash = (id, at) => `#/traces/${id}${at ? "/" + at : ""}`;

export default function Traces({ rest: [what = "", given = ""] }) {
  if (what === "map") return html`<${ServiceMap} last=${given || "3600"} ranges=${RANGES} />`;
  if (what && what !== "find") return html`<${Trace} id=${what} at=${given} />`;
  return html`<${List} asked=${Object.fromEntries(new URLSearchParams(decoded(given)))} />`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function List({ asked }) {
  const last = asked.last ?? "3600";
  const [problem, setProblem] = useState(null);
  const services = useResource("/traces/services" + query({ last }));
  const [service, setService] = useState(asked.service ?? "");
  const operations = useResource(service ? "/traces/operations" + query({ last, service }) : null);
  const [least, most] = [asked.min_duration, asked.max_duration].map((text) => (text ? nanos(text) : undefined));
  const found = usePages("/traces", {
    last, service: asked.service, operation: asked.operation, min_duration: least, max_duration: most,
    failed: asked.failed, attribute: asked.attribute,
  }, 50);
  const search = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const wanted = Object.fromEntries(FIELDS.map((name) => [name, String(form.get(name) ?? "").trim()]));
    const wrong = ["min_duration", "max_duration"].find((name) => wanted[name] && nanos(wanted[name]) === undefined);
    if (wrong) return setProblem(new Error(`A duration must be a number with ns, us, ms, s or m, not ${wanted[wrong]}.`));
    setProblem(null);
    if (listHash(wanted) === location.hash) found.again();
    else location.hash = listHash(wanted);
  };
  return html`
    <div class="bar"><h1>Traces</h1><span class="buttons"><a class="button" href=${"#/traces/map/" + last}>Service map</a></span></div>
    <form class="asked" onSubmit=${search}>
      <label>In the last <select name="last" value=${last}>${RANGES.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>
      <label>Service <input name="service" list="services" value=${service} onInput=${(e) => setService(e.currentTarget.value.trim())} spellcheck=${false} /></label>
      <datalist id="services">${(services.data?.items ?? []).map((one) => html`<option key=${one.service} value=${one.service} />`)}</datalist>
      <label>Operation <input name="operation" list="operations" value=${asked.operation ?? ""} spellcheck=${false} /></label>
      <datalist id="operations">${(operations.data?.items ?? []).map((one) => html`<option key=${one.name + one.kind} value=${one.name} />`)}</datalist>
      <label>Attribute <input name="attribute" placeholder="http.route=/items" value=${asked.attribute ?? ""} spellcheck=${false} /></label>
      <label>At least <input name="min_duration" class="short" placeholder="200ms" value=${asked.min_duration ?? ""} /></label>
      <label>At most <input name="max_duration" class="short" placeholder="2s" value=${asked.max_duration ?? ""} /></label>
      <label class="check"><input type="checkbox" name="failed" value="true" checked=${asked.failed === "true"} /> Failed spans only</label>
      <button class="main">Search</button>
    </form>
    <${Problem} error=${problem ?? found.error ?? services.error} />
    ${found.loaded ? html`<${Found} rows=${found.items} more=${found.more} next=${found.next} />` : html`<${Waiting} />`}`;
}

const COLUMNS = [
  { name: "trace", width: "30%", show: (row) => html`<a href=${traceHash(row.id, row.start)}><i class="dot" style=${`--of:${colorOf(row.service)}`}></i><b>${plain(row.service || "no service")}</b> ${plain(row.operation || "no name")}</a>${!row.rooted && html` <span class="dim" title="The first span was not found in this range.">(no root)</span>`}` },
  { name: "began", width: "13em", show: (row) => moment(row.start) },
  { name: "took", kind: "number", show: (row) => took(row.duration) },
  { name: "spans", kind: "number", show: (row) => number(row.spans) },
  { name: "failed", kind: "number", show: (row) => (row.errors ? html`<span class="badge bad">${number(row.errors)}</span>` : "") },
  { name: "services", show: (row) => row.services.map((one) => `${plain(one.service || "no service")} ${number(one.spans)}`).join(", ") },
];

function Found({ rows, more, next }) {
  if (!rows.length && next) more();
  return html`
    ${rows.length > 1 && html`<${Scatter} rows=${rows} />`}
    <p class="dim">${plural(rows.length, "trace")}${next ? ", and there are more" : ""}, the newest first.</p>
    <${Grid} label="Traces" columns=${COLUMNS} rows=${rows} onEnd=${more} tall=${520} empty="No trace in this range fits." />`;
}

const [WIDE, TALL] = [1000, 130];

// How long each trace took, along time. The vertical scale is logarithmic.
function Scatter({ rows }) {
  const drawn = useMemo(() => {
    const times = rows.map((one) => Number(BigInt(one.start) / 1000n));
    const logs = rows.map((one) => Math.log10(Math.max(1, Number(one.duration))));
    const [from, to] = [Math.min(...times), Math.max(...times)];
    const [low, high] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 0.01)];
    return rows.map((one, index) => ({
      one, x: 14 + ((times[index] - from) / Math.max(1, to - from)) * (WIDE - 28),
      y: TALL - 12 - ((logs[index] - low) / Math.max(1, high - low)) * (TALL - 24),
    }));
  }, [rows]);
  return html`
    <section class="panel"><h2>Durations <span class="dim">· along time, on a logarithmic scale; rings have failed spans</span></h2>
      <svg class="scatter" viewBox=${`0 0 ${WIDE} ${TALL}`} role="img" aria-label=${`Durations of ${plural(rows.length, "trace")}`}>
        <path class="axis" d=${`M0 ${TALL - 4}H${WIDE}`} />
        ${drawn.map(({ one, x, y }) => html`
          <circle key=${one.id} cx=${x.toFixed(1)} cy=${y.toFixed(1)} r=${Math.min(9, 3 + Math.log2(one.spans))} class=${one.errors ? "failed" : ""}
            style=${`--of:${colorOf(one.service)}`} onClick=${() => { location.hash = traceHash(one.id, one.start); }}>
            <title>${plain(one.service)} ${plain(one.operation)}: ${took(one.duration)}</title></circle>`)}
      </svg>
    </section>`;
}
