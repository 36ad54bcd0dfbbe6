// Logs: a search beside an SQL condition, the whole range along time, facets, records, and what comes.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get, query } from "../api.js";
import { Grid, Problem, Waiting } from "../parts.js";
import { instant, number, plain, plural } from "../text.js";
import { Chart, LEVELS } from "./log-chart.js";
import { Level, RecordDialog, term } from "./log-record.js";
import { useTail } from "./log-tail.js";

const RANGES = [["5 minutes", 300], ["15 minutes", 900], ["1 hour", 3600], ["6 hours", 21600], ["24 hours", 86400], ["7 days", 604800], ["30 days", 2592000], ["1 year", 31622400]];
const PAGE = 200;
const EMPTY = { items: [], next: null, rows: null, chart: null, facets: null, error: null, busy: true };

const columns = (open) => [
  { name: "time", width: "16.5em", show: (row) => html`<button class="plain mono" onClick=${() => open(row)} aria-label=${`Open the record of ${instant(row.time)}`}>${instant(row.time)}</button>` },
  { name: "level", width: "7em", show: (row) => html`<${Level} level=${row.level} />` },
  { name: "service", width: "10em", show: (row) => html`<span class="cell">${plain(row.service ?? "")}</span>` },
  { name: "body", show: (row) => html`<span class="cell mono wide" title=${plain(row.body ?? "")}>${plain(row.body ?? "")}</span>` },
  { name: "trace", width: "8em", show: (row) => (row.trace_id ? html`<a class="mono" href=${`#/traces/${encodeURIComponent(row.trace_id)}/${row.time}`} aria-label=${`Trace ${plain(row.trace_id)}`}>${plain(row.trace_id.slice(0, 8))}</a>` : "") },
];

// A question in the address: what is asked can be sent to others.
function fromAddress(rest) {
  const given = new URLSearchParams(rest.join("/"));
  const digits = (name) => (/^\d{1,19}$/.test(given.get(name) ?? "") ? given.get(name) : null);
  return { q: given.get("q") ?? "", where: given.get("where") ?? "", table: given.get("table"), last: Number(digits("last") ?? 900), start: digits("start"), end: digits("end") };
}

function toAddress(asked) {
  const { q, where, table, last, start, end } = asked;
  const values = query({ q, where, table, ...(start ? { start, end } : { last }) });
  history.replaceState(null, "", "#/logs/" + values.slice(1));
}

export default function Logs({ rest }) {
  const [tables, setTables] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    get("/logs/tables").then((found) => setTables({ ...found, ahead: Number(BigInt(found.now) / 1000000n) - Date.now() }), setError);
  }, []);
  if (error) return html`<h1>Logs</h1><${Problem} error=${error} />`;
  if (!tables) return html`<h1>Logs</h1><${Waiting} />`;
  if (tables.items.length === 0) return html`<h1>Logs</h1>
    <p class="notice">No table of this lake holds logs. Make them with <code>moulin init --otel</code>, and take in records with <code>moulin up</code>.</p>`;
  return html`<${Explorer} tables=${tables} rest=${rest} />`;
}

function Explorer({ tables, rest }) {
  const [asked, setAsked] = useState(() => fromAddress(rest));
  const [text, setText] = useState(asked.q);
  const [where, setWhere] = useState(asked.where);
  const [fields, setFields] = useState(["level", "service"]);
  const [opened, open] = useState(null);
  const [live, setLive] = useState(false);
  const [scrolled, setScrolled] = useState(false);
  const [paused, pause] = useState(false);
  const found = useLogs(asked, fields, tables.ahead, live);
  const tail = useTail({ q: asked.q, where: asked.where, table: asked.table }, live, paused || scrolled);
  const ask = (changed) => {
    const next = { ...asked, q: text, where, ...changed };
    setText(next.q);
    setWhere(next.where);
    toAddress(next);
    setAsked({ ...next });
  };
  const add = (one) => ask({ q: text.trim() ? `${text.trim()} ${one}` : one });
  const submit = (event) => {
    event.preventDefault();
    ask({});
  };
  const range = asked.start ? "own" : String(asked.last);
  return html`
    <h1>Logs</h1>
    <form class="search" onSubmit=${submit} role="search">
      <label class="grow">Search
        <input type="search" value=${text} maxlength="2000" spellcheck=${false} autocomplete="off" placeholder='level:error service:cart "timed out"' onInput=${(e) => setText(e.currentTarget.value)} /></label>
      <label class="grow">SQL condition
        <input class="mono" value=${where} maxlength="4000" spellcheck=${false} autocomplete="off" placeholder="attributes['http.route'] = '/cart'" onInput=${(e) => setWhere(e.currentTarget.value)} /></label>
      ${tables.items.length > 1 && html`<label>Table
        <select value=${asked.table ?? tables.items[0].id} onChange=${(e) => ask({ table: e.currentTarget.value })}>
          ${tables.items.map((one) => html`<option key=${one.id} value=${one.id}>${plain(one.database)}.${plain(one.name)}</option>`)}</select></label>`}
      <label>Range
        <select value=${range} onChange=${(e) => e.currentTarget.value !== "own" && ask({ last: Number(e.currentTarget.value), start: null, end: null })}>
          ${range === "own" && html`<option value="own">as chosen below</option>`}
          ${!RANGES.some(([, seconds]) => String(seconds) === range) && range !== "own" && html`<option value=${range}>last ${number(range)} s</option>`}
          ${RANGES.map(([name, seconds]) => html`<option key=${seconds} value=${String(seconds)}>last ${name}</option>`)}</select></label>
      <button class="main">Search</button>
      <button type="button" aria-pressed=${live} onClick=${() => { ask({}); setLive(!live); pause(false); setScrolled(false); }}>${live ? "Stop the tail" : "Live tail"}</button>
    </form>
    <${Problem} error=${found.error} />
    ${live ? html`<${Tail} tail=${tail} paused=${paused} pause=${pause} open=${open} scrolled=${scrolled} onScroll=${setScrolled} />` : html`
      ${found.chart && html`<section class="panel" aria-label="Along time">
        <${Chart} data=${found.chart} choose=${(start, end) => ask({ start, end })} />
        <p class="legend">${LEVELS.filter((level) => found.chart.levels.some((one) => one.level === level)).map((level) => html`<span key=${level}><i class=${"bar-" + level}></i>${level}</span>`)}
          ${asked.start && html`<button class="small" onClick=${() => ask({ start: null, end: null })}>Back to the last ${RANGES.find(([, one]) => one === asked.last)?.[0] ?? "minutes"}</button>`}</p>
        ${found.chart.left_out > 0 && html`<p class="notice">${plural(found.chart.left_out, "baby segment")} wait for the nursery and are not counted: too much has come that is in no version yet.</p>`}
      </section>`}
      <div class="with-facets">
        <${Facets} facets=${found.facets} add=${add} fields=${fields} setFields=${setFields} />
        <div>
          <h2>Newest first ${found.rows && html`<span class="dim">${instant(found.rows.start)} to ${instant(found.rows.end)}</span>`}</h2>
          ${found.items.length === 0 && found.busy ? html`<${Waiting} />`
            : html`<${Grid} label="Records" columns=${columns(open)} rows=${found.items} onEnd=${found.more} tall=${620} fixed empty="Nothing was found in this range." />`}
        </div>
      </div>`}
    ${opened && html`<${RecordDialog} key=${opened.id} record=${opened} table=${asked.table} onClose=${() => open(null)}
      onTerm=${(one, key) => { open(null); setFields((old) => (old.includes(key) ? old : [...old, key].slice(-8))); add(one); }} />`}`;
}

function Tail({ tail, paused, pause, open, scrolled, onScroll }) {
  const waiting = paused || scrolled ? tail.held : 0;
  return html`
    <div class="bar"><h2>As it comes <span class="dim">${plural(tail.items.length, "record")} shown, newest first</span></h2>
      <span class="buttons">${waiting > 0 && html`<span class="dim" role="status">${plural(waiting, "new record")}</span>`}
        <button aria-pressed=${paused} onClick=${() => pause(!paused)}>${paused ? "Go on" : "Pause"}</button></span></div>
    ${scrolled && html`<p class="notice">New records wait while you read further down. Scroll to the top to see them.</p>`}
    ${tail.skipped > 0 && html`<p class="notice">${plural(tail.skipped, "record")} came faster than they can be shown; a search has them.</p>`}
    ${tail.lost && html`<p class="notice">Some records were committed and trimmed before they could be shown; a search has them.</p>`}
    <${Problem} error=${tail.problem} />
    <div onScrollCapture=${(event) => onScroll(event.target.scrollTop > 40)}>
      <${Grid} label="Records as they come" columns=${columns(open)} rows=${tail.items} tall=${720} fixed empty=${tail.opened ? "Nothing has come yet." : "The tail is being opened …"} /></div>`;
}

function Facets({ facets, add, fields, setFields }) {
  return html`<aside class="facets" aria-label="Values of fields">
    ${facets?.items.map((facet) => html`
      <section key=${facet.field}><h2>${plain(facet.field)} <span class="dim">${number(facet.distinct)}${facet.cut ? " or more" : ""}</span></h2>
        <ul>${facet.values.map(({ value, count }) => html`
          <li key=${String(value)}><button class="plain" onClick=${() => add(term(facet.field, value))}>${value === null ? html`<i>none</i>` : plain(value)}</button><span class="dim">${number(count)}</span></li>`)}</ul>
      </section>`)}
    ${facets && facets.attributes.some((one) => !fields.includes(one)) && html`<label>Count an attribute
      <select value="" onChange=${(e) => e.currentTarget.value && setFields([...fields, e.currentTarget.value].slice(-8))}>
        <option value="">choose …</option>
        ${facets.attributes.filter((one) => !fields.includes(one)).map((one) => html`<option key=${one} value=${one}>${plain(one)}</option>`)}</select></label>`}
  </aside>`;
}

// What a question finds: records, counts and facets of one range. A question that is not waited for any more is taken back.
function useLogs(asked, fields, ahead, isIdle) {
  const [found, set] = useState(EMPTY);
  const turn = useRef(null);
  const shown = fields.join("\n");
  useEffect(() => {
    if (isIdle) return undefined;
    const stop = new AbortController();
    const now = BigInt(Date.now() + Math.round(ahead)) * 1000000n + 1000000000n;
    const end = asked.end ?? String(now);
    const start = asked.start ?? String(BigInt(end) - BigInt(asked.last) * 1000000000n);
    const values = { q: asked.q, where: asked.where, table: asked.table, start, end };
    const mine = { values, busy: false, signal: stop.signal };
    turn.current = mine;
    const put = (changed) => turn.current === mine && set((old) => ({ ...old, ...changed }));
    const failed = (error) => stop.signal.aborted || put({ error, busy: false });
    set((old) => ({ ...EMPTY, chart: old.chart, facets: old.facets }));
    get("/logs/search" + query({ ...values, limit: PAGE }), stop.signal).then(
      (rows) => put({ rows, items: rows.items, next: rows.next_cursor, busy: false }), failed);
    get("/logs/histogram" + query({ ...values, buckets: 100 }), stop.signal).then((chart) => put({ chart }), failed);
    return () => stop.abort();
  }, [asked, isIdle]);
  useEffect(() => {
    const mine = turn.current;
    if (isIdle || !mine) return undefined;
    const stop = new AbortController();
    const wanted = query(mine.values) + fields.map((one) => "&field=" + encodeURIComponent(one)).join("");
    get("/logs/facets" + wanted, stop.signal).then((facets) => set((old) => ({ ...old, facets })), () => {});
    return () => stop.abort();
  }, [asked, shown, isIdle]);
  const more = async () => {
    const mine = turn.current;
    if (!mine || mine.busy || !found.next) return;
    mine.busy = true;
    try {
      const rows = await get("/logs/search" + query({ ...mine.values, limit: PAGE, cursor: found.next }), mine.signal);
      if (turn.current === mine) set((old) => ({ ...old, items: old.items.concat(rows.items), next: rows.next_cursor }));
    } catch (error) {
      if (!mine.signal.aborted && turn.current === mine) set((old) => ({ ...old, error, next: null }));
    } finally {
      mine.busy = false;
    }
  };
  return { ...found, more };
}
