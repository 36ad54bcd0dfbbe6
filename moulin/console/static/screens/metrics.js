// Metrics: a name and its attributes, as lines along time.

import { html, useMemo, useState } from "../vendor/preact.js";
import { query } from "../api.js";
import { Badge, Grid, Problem, Waiting } from "../parts.js";
import { useResource } from "../resources.js";
import { number, plain, plural } from "../text.js";
import { LineChart, amount } from "./line-chart.js";

const RANGES = [["900", "15 minutes"], ["3600", "hour"], ["21600", "6 hours"], ["86400", "day"], ["604800", "7 days"], ["2592000", "30 days"]];
const FIELDS = ["last", "start", "end", "where", "by", "stat", "kind", "table"];
const STATS = {
  gauge: ["avg", "min", "max", "sum"], counter: ["rate", "increase", "avg", "min", "max", "sum"],
  histogram: ["quantile", "mean", "rate", "increase"],
};
const LABELS = { avg: "average", min: "least", max: "most", sum: "sum of series", rate: "rate by second", increase: "increase by step", quantile: "percentiles", mean: "mean" };

// A chart in the address: name, then what is asked of it.
export function chartHash(name, asked) {
  const values = query(Object.fromEntries(FIELDS.filter((one) => one !== "where" && one !== "by").map((one) => [one, asked[one]]))).slice(1);
  const lists = ["where", "by"].flatMap((one) => (asked[one] ?? []).map((value) => `${one}=${encodeURIComponent(value)}`));
  return `#/metrics/${encodeURIComponent(name)}/${encodeURIComponent([values, ...lists].filter(Boolean).join("&"))}`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

export default function Metrics({ rest: [name = "", given = ""] }) {
  const values = new URLSearchParams(decoded(given));
  const asked = { ...Object.fromEntries(values), where: values.getAll("where"), by: values.getAll("by") };
  const last = asked.last ?? "3600";
  const within = asked.start ? { start: asked.start, end: asked.end } : { last };
  const tables = useResource("/metrics/tables");
  const listed = useResource(tables.data?.items.length ? "/metrics/names" + query({ ...within, table: asked.table }) : null);
  const wanted = decoded(name);
  const found = (listed.data?.items ?? []).filter((one) => one.name === wanted);
  const metric = found.find((one) => one.kind === asked.kind) ?? found[0];
  if (tables.error) return html`<h1>Metrics</h1><${Problem} error=${tables.error} />`;
  if (!tables.data) return html`<h1>Metrics</h1><${Waiting} />`;
  if (tables.data.items.length === 0) return html`<h1>Metrics</h1>
    <p class="notice">No table of this lake holds metrics. Make them with <code>moulin init --otel</code>, and take in points with <code>moulin up</code>.</p>`;
  const go = (changed, to = wanted) => { location.hash = chartHash(to, { ...asked, last, ...changed }); };
  return html`
    <div class="bar"><h1>${wanted ? plain(wanted) : "Metrics"}</h1>
      <span class="buttons">${wanted && html`<a class="button" href=${chartHash("", { last, table: asked.table })}>All metrics</a>`}</span></div>
    <form class="asked" onSubmit=${(event) => event.preventDefault()}>
      <label>In the last <select value=${asked.start ? "own" : last} onChange=${(e) => e.currentTarget.value !== "own" && go({ last: e.currentTarget.value, start: null, end: null })}>
        ${asked.start && html`<option value="own">as chosen below</option>`}
        ${RANGES.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>
      ${tables.data.items.length > 1 && html`<label>Table <select value=${asked.table ?? tables.data.items[0].id} onChange=${(e) => go({ table: e.currentTarget.value })}>
        ${tables.data.items.map((one) => html`<option key=${one.id} value=${one.id}>${plain(one.database)}.${plain(one.name)}</option>`)}</select></label>`}
      ${metric && html`<${Choices} metric=${metric} asked=${asked} within=${within} go=${go} kinds=${found.map((one) => one.kind)} />`}
    </form>
    <${Problem} error=${listed.error} />
    ${wanted ? html`<${Shown} name=${wanted} metric=${metric} asked=${asked} within=${within} go=${go} />`
      : html`<${Names} listed=${listed} asked=${{ ...asked, last }} />`}`;
}

// A condition as the server takes it: the first = ends the key.
const pair = (key, value) => `${key.replaceAll("%", "%25").replaceAll("=", "%3D")}=${value}`;

function shownPair(text) {
  const at = text.indexOf("=");
  return text.slice(0, at).replaceAll("%3D", "=").replaceAll("%25", "%") + text.slice(at);
}

function statsOf(metric) {
  if (metric.kind === "sum") return metric.monotonic ? STATS.counter : STATS.gauge;
  return metric.kind === "gauge" ? STATS.gauge : STATS.histogram;
}

function Choices({ metric, asked, within, go, kinds }) {
  const [key, setKey] = useState("");
  const known = useMemo(() => ["service.name", ...metric.attributes.filter((one) => one !== "service.name")], [metric]);
  const values = useResource(key ? "/metrics/values" + query({ ...within, name: metric.name, key, table: asked.table }) : null);
  return html`
    ${kinds.length > 1 && html`<label>Kind <select value=${metric.kind} onChange=${(e) => go({ kind: e.currentTarget.value, stat: null })}>
      ${[...new Set(kinds)].map((one) => html`<option key=${one} value=${one}>${plain(one)}</option>`)}</select></label>`}
    <label>Show <select name="stat" value=${asked.stat ?? ""} onChange=${(e) => go({ stat: e.currentTarget.value })}>
      <option value="">the default</option>
      ${statsOf(metric).map((one) => html`<option key=${one} value=${one}>${LABELS[one]}</option>`)}</select></label>
    <label>A line for each <select name="by" value="" onChange=${(e) => e.currentTarget.value && go({ by: [...asked.by, e.currentTarget.value] })}>
      <option value="">choose …</option>
      ${known.filter((one) => !asked.by.includes(one)).map((one) => html`<option key=${one} value=${one}>${plain(one)}</option>`)}</select></label>
    <label>Only where <select name="key" value=${key} onChange=${(e) => setKey(e.currentTarget.value)}>
      <option value="">choose …</option>
      ${known.map((one) => html`<option key=${one} value=${one}>${plain(one)}</option>`)}</select></label>
    ${key && html`<label>is <select name="value" value="" onChange=${(e) => { if (e.currentTarget.value) { go({ where: [...asked.where, pair(key, e.currentTarget.value)] }); setKey(""); } }}>
      <option value="">choose …</option>
      ${(values.data?.values ?? []).map((one) => html`<option key=${one} value=${one}>${plain(one)}</option>`)}</select></label>`}
    <span class="buttons">
      ${asked.where.map((one) => html`<button type="button" class="small" key=${one} onClick=${() => go({ where: asked.where.filter((other) => other !== one) })}
        aria-label=${`Remove ${plain(shownPair(one))}`}>${plain(shownPair(one))} <span aria-hidden="true">✕</span></button>`)}
      ${asked.by.map((one) => html`<button type="button" class="small" key=${one} onClick=${() => go({ by: asked.by.filter((other) => other !== one) })}
        aria-label=${`Remove by ${plain(one)}`}>by ${plain(one)} <span aria-hidden="true">✕</span></button>`)}
    </span>`;
}

function Names({ listed, asked }) {
  const [part, setPart] = useState("");
  const rows = (listed.data?.items ?? []).filter((one) => one.name.toLowerCase().includes(part.toLowerCase()));
  const columns = [
    { name: "metric", width: "26%", show: (row) => html`<a href=${chartHash(row.name, { ...asked, kind: row.kind })}>${plain(row.name) || "no name"}</a>` },
    { name: "kind", width: "12em", show: (row) => html`<${Badge}>${plain(row.kind)}<//> ${row.kind === "sum" && !row.monotonic ? "up and down" : ""}` },
    { name: "unit", width: "9em", show: (row) => plain(row.unit) },
    { name: "points", kind: "number", width: "7em", show: (row) => number(row.points) },
    { name: "attributes", show: (row) => row.attributes.map(plain).join(", ") },
    { name: "description", show: (row) => plain(row.description) },
  ];
  if (!listed.data) return listed.error ? null : html`<${Waiting} />`;
  return html`
    <p class="filter"><label><span class="hidden">Find a metric</span><input type="search" placeholder="Find a metric" value=${part} onInput=${(e) => setPart(e.currentTarget.value)} /></label>
      <span class="dim"> ${plural(rows.length, "metric")}</span></p>
    ${listed.data.left_out > 0 && html`<p class="notice">${plural(listed.data.left_out, "baby segment")} wait for the nursery and were not read.</p>`}
    <${Grid} label="Metrics" columns=${columns} rows=${rows} tall=${620} fixed empty="No metric has points in this range." />`;
}

function Shown({ name, metric, asked, within, go }) {
  const wanted = query({ name, ...within, stat: asked.stat, kind: asked.kind ?? metric?.kind, table: asked.table })
    + ["where", "by"].flatMap((one) => asked[one].map((value) => `&${one}=${encodeURIComponent(value)}`)).join("");
  const { data, error } = useResource("/metrics/query" + wanted, 10);
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`;
  return html`
    <${Problem} error=${error} />
    ${metric?.description && html`<p class="dim">${plain(metric.description)}</p>`}
    <section class="panel" aria-label="Along time">
      <${LineChart} data=${data} choose=${(start, end) => go({ start, end })} />
      ${asked.start && html`<p><button class="small" onClick=${() => go({ start: null, end: null })}>Back to the last ${RANGES.find(([value]) => value === (asked.last ?? "3600"))?.[1] ?? "hour"}</button></p>`}
      ${data.groups > 100 && html`<p class="notice">${plural(data.groups, "line")} fit, and the first 100 are shown: ask for fewer by an attribute.</p>`}
      ${data.left_out > 0 && html`<p class="notice">${plural(data.left_out, "baby segment")} wait for the nursery and were not read.</p>`}
    </section>
    ${data.exemplars.length > 0 && html`<section><h2>Exemplars <span class="dim">· single values with their traces, the newest first</span></h2>
      <${Grid} label="Exemplars" columns=${EXEMPLARS(data.unit)} rows=${[...data.exemplars].reverse()} tall=${260} /></section>`}`;
}

const EXEMPLARS = (unit) => [
  { name: "value", kind: "number", width: "9em", show: (row) => amount(row.value, unit) },
  { name: "trace", show: (row) => html`<a class="mono" href=${`#/traces/${encodeURIComponent(row.trace_id)}/${row.time}`}>${plain(row.trace_id)}</a>` },
  { name: "attributes", show: (row) => Object.entries(row.attributes).map(([key, value]) => `${plain(key)}=${plain(value)}`).join(" ") },
];
