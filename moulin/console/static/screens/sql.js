// SQL: an editor, the rows of a statement, its plan, a chart of it, and what was run before in this browser.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { Badge, Problem, Waiting } from "../parts.js";
import { number, plain, plural } from "../text.js";
import { ChartView } from "./sql-chart.js";
import { Editor } from "./sql-editor.js";
import { PlanView } from "./sql-plan.js";
import { ResultGrid } from "./sql-result.js";
import { cancel, current, forgetPast, isOver, keepDraft, past, run, text } from "./sql-run.js";

const TABS = ["Rows", "Chart", "Plan", "History"];
const NAMES = { spark: "Spark", duckdb: "DuckDB" };
const QUOTES = { spark: "`", duckdb: '"' };
const asked = { engine: null, limit: null, version: "" }; // kept while one looks at other screens

const seconds = (value) => (value < 10 ? value.toFixed(2) : Math.round(value)) + " s";

export default function Sql({ rest }) {
  const [offer, setOffer] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    get("/sql").then(async (found) => {
      asked.engine ??= found.engines[0];
      asked.limit ??= Math.min(1000, found.rows);
      if (rest[0] === "table" && rest[1]) await begin(rest[1]);
      setOffer(found);
    }).catch(setError);
  }, []);
  if (!offer) return html`<h1>SQL</h1>${error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`}`;
  if (!offer.engines.length) return html`<h1>SQL</h1>
    <p class="empty">This server runs no SQL. Start it with <code>moulin serve --sql</code>, or install DuckDB with <code>pip install 'moulin[duckdb]'</code>.</p>`;
  return html`<${Desk} offer=${offer} />`;
}

// A statement about a table, from a link on its screen.
async function begin(id) {
  const table = await get("/tables/" + id);
  const quote = QUOTES[asked.engine];
  const name = [table.database, table.name].map((part) => (/^[a-z_]\w*$/i.test(part) ? part : quote + part.replaceAll(quote, quote + quote) + quote)).join(".");
  const wanted = `select * from ${name} limit 100`;
  keepDraft();
  text.value = wanted;
  location.replace("#/sql");
}

function Desk({ offer }) {
  const [engine, setEngine] = useState(asked.engine);
  const [limit, setLimit] = useState(String(asked.limit));
  const [version, setVersion] = useState(asked.version);
  const [tab, setTab] = useState("Rows");
  const shown = current.value;
  const busy = shown !== null && !isOver(shown);
  useEffect(() => { Object.assign(asked, { engine, version, limit: Number(limit) || asked.limit }); }, [engine, limit, version]);
  const go = () => {
    if (!text.value.trim()) return;
    if (tab === "History" || tab === "Plan") setTab("Rows");
    const rows = Math.max(1, Math.min(offer.rows, Number(limit) || offer.rows));
    run({ text: text.value, engine, limit: rows, ...(/^\d+$/.test(version) ? { version } : {}) });
  };
  return html`
    <div class="bar"><h1>SQL</h1>
      <p class="dim limits">At most ${seconds(offer.seconds).replace(".00", "")}, ${plural(offer.rows, "row")}; ${number(offer.running)} at a time. Statements read the lake and change nothing.</p></div>
    <${Editor} text=${text} engine=${engine} mistake=${shown?.error?.line ? shown.error : null} onRun=${go} />
    <div class="desk">
      ${busy ? html`<button class="bad" onClick=${cancel} disabled=${shown.stopping}>${shown.stopping ? "Stopping …" : "Cancel"}</button>`
        : html`<button class="main" onClick=${go} aria-keyshortcuts="Control+Enter">Run</button>`}
      <kbd>Ctrl Enter</kbd>
      <label>on <select value=${engine} onChange=${(e) => setEngine(e.currentTarget.value)}>
        ${offer.engines.map((one) => html`<option key=${one} value=${one}>${NAMES[one] ?? one}</option>`)}</select></label>
      <label>rows <input type="number" min="1" max=${offer.rows} value=${limit} onInput=${(e) => setLimit(e.currentTarget.value)} /></label>
      <label>at version <input inputmode="numeric" placeholder="newest" value=${version} onInput=${(e) => setVersion(e.currentTarget.value.trim())} /></label>
      <${Status} run=${shown} offer=${offer} />
    </div>
    ${shown?.error && html`<p class="notice bad" role="alert">${shown.error.line ? html`<b>Line ${shown.error.line}${shown.error.column ? `, column ${shown.error.column}` : ""}:</b> ` : ""}${plain(shown.error.message)}</p>`}
    <${Tabs} tab=${tab} setTab=${setTab} run=${shown} />
    <div id="sql-panel" role="tabpanel" aria-labelledby=${"sql-tab-" + TABS.indexOf(tab)}>
      ${tab === "History" ? html`<${Past} />` : html`<${Outcome} tab=${tab} run=${shown} />`}
    </div>`;
}

function Tabs({ tab, setTab, run: shown }) {
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (TABS.indexOf(tab) + step + TABS.length) % TABS.length;
    setTab(TABS[next]);
    document.getElementById("sql-tab-" + next).focus();
  };
  return html`<div class="bar tabbed"><div class="tabs" role="tablist" aria-label="What is shown" onKeyDown=${onKeyDown}>
      ${TABS.map((one, index) => html`<button key=${one} id=${"sql-tab-" + index} role="tab" aria-selected=${one === tab} aria-controls="sql-panel"
        tabindex=${one === tab ? 0 : -1} onClick=${() => setTab(one)}>${one}</button>`)}</div>
    ${shown?.result && html`<p class="exports">Export ${["csv", "ndjson", "arrow", "parquet"].map((one) => html`
      <a key=${one} href=${`/api/v1/sql/${shown.id}/export?format=${one}`} download=${"result." + one}>${one}</a> `)}</p>`}
  </div>`;
}

const WHAT = { waiting: "Waiting for others", starting: "Starting", running: "Running" };

function Status({ run: shown, offer }) {
  const [, tick] = useState(0);
  const busy = shown !== null && !isOver(shown);
  useEffect(() => {
    if (!busy) return undefined;
    const timer = setInterval(() => tick((old) => old + 1), 500);
    return () => clearInterval(timer);
  }, [busy]);
  if (shown === null) return html`<span class="dim ran" role="status"></span>`;
  const name = NAMES[shown.engine] ?? shown.engine;
  if (busy) {
    const since = (Date.now() - shown.started) / 1000;
    const at = shown.state === "running" && shown.seconds !== null ? `${Math.round(shown.seconds)} of ${offer.seconds} s` : `${Math.round(since)} s`;
    return html`<span class="ran" role="status">${WHAT[shown.state]}${shown.state === "waiting" ? "" : ` ${shown.state === "running" ? "on " : ""}${name}`}, ${at}
      ${shown.progress !== null && html` <progress max="1" value=${shown.progress} aria-label="Done"></progress>`}</span>`;
  }
  if (shown.state !== "done") return html`<span class="ran dim" role="status">${shown.state === "cancelled" ? "Cancelled" : "Failed"}</span>`;
  const { total, columns } = shown.result;
  return html`<span class="ran" role="status">${plural(total, "row")} × ${columns.length}, ${seconds(shown.seconds ?? 0)} on ${name}
    ${shown.more && html` <${Badge}>${shown.cut ? "cut: the result is too large" : `the first ${number(total)}: there are more`}<//>`}</span>`;
}

function Outcome({ tab, run: shown }) {
  if (!shown) return html`<p class="dim empty">Write a query, and press Ctrl Enter. Ctrl Space shows what may follow. Escape, then Tab leaves the editor.</p>`;
  if (tab === "Plan") return shown.id ? html`<${PlanView} id=${shown.id} />` : html`<p class="dim empty">Run a statement to see its plan.</p>`;
  if (!isOver(shown)) return html`<${Waiting} />`;
  if (!shown.result) return html`<p class="dim empty">There are no rows.</p>`;
  if (tab === "Chart") return html`<${ChartView} key=${shown.id} result=${shown.result} />`;
  return html`<${Problem} error=${shown.result.error.value} />
    ${shown.result.columns.length ? html`<${ResultGrid} key=${shown.id} result=${shown.result} />` : html`<p class="dim empty">The result has no columns.</p>`}
    ${shown.result.columns.length > 0 && shown.result.total === 0 && html`<p class="dim">No rows.</p>`}`;
}

function Past() {
  if (!past.value.length) return html`<p class="dim empty">Nothing yet. What you run is kept in this browser alone.</p>`;
  return html`
    <div class="bar"><p class="dim">Kept in this browser alone, newest first.</p><button onClick=${forgetPast}>Clear the history</button></div>
    <ol class="past">${past.value.map((one, index) => html`
      <li key=${one.at + "-" + index}><button class="plain" title="Put it into the editor" onClick=${() => { keepDraft(); text.value = one.text; }}><code>${plain(one.text.replace(/\s+/g, " ").slice(0, 400))}</code></button>
        <span class="dim">${new Date(one.at).toISOString().slice(0, 16).replace("T", " ")}Z, ${one.engine ? `${NAMES[one.engine] ?? plain(one.engine)}, ` : ""}${one.state === "done" ? plural(one.rows ?? 0, "row") : plain(one.state)}${one.seconds ? `, ${seconds(one.seconds)}` : ""}</span></li>`)}</ol>`;
}
