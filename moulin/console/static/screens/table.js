// One table: what it is made of, who can read it, some of its rows.

import { html, useState } from "../vendor/preact.js";
import { change, may, me, query } from "../api.js";
import { state } from "../live.js";
import { Badge, Cards, Confirm, Copy, Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { cell, moment, number, plain, plural, size } from "../text.js";
import { Levels } from "./levels.js";

const KINDS = [["btree", "values and ranges"], ["bloom", "rules out segments without a value"], ["bitmap", "few different values"], ["label_list", "lists"]];
const TABS = ["Inside", "Schema", "Rows", "Readers", "Use it"];

export default function Table({ rest: [id] }) {
  const path = "/tables/" + id;
  const { data, error, again } = useResource(path);
  const [tab, setTab] = useState("Inside");
  const [asked, ask] = useState(null);
  if (!data) return error ? html`<h1>Table</h1><${Problem} error=${error} />` : html`<${Waiting} />`;
  const name = `${data.database}.${data.name}`;
  const tabKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length];
    setTab(next);
    document.getElementById("tab-" + TABS.indexOf(next)).focus();
  };
  return html`
    <div class="bar"><h1>${plain(name)}</h1>
      <span class="buttons">
        <a class="button" href=${"#/sql/table/" + id}>Query this table</a>
        <a class="button" href=${"#/versions/" + id}>Versions</a>
        ${may("write") && html`<button onClick=${() => ask("property")}>Set property</button>`}
        ${may("pipeline") && html`<button onClick=${() => ask("compact")}>Plan compaction</button>`}
        ${may("write") && html`<button class="bad" onClick=${() => ask("drop")}>Drop</button>`}
      </span></div>
    <p class="dim path">${plain(data.location)}</p>
    <${Problem} error=${error} />
    <${Cards} figures=${[
      ["live rows", number(data.rows)], ["deleted, by vectors", number(data.deleted_rows)], ["bytes", size(data.bytes)],
      ["segments", number(data.segments)], ["read amplification", number(data.read_amplification), "In how many segments one key, or one moment, may be."],
      ["write amplification", data.write_amplification === null ? "–" : data.write_amplification.toFixed(2), "Bytes written for each byte at level 0."],
      ["version", html`<a href=${"#/versions/" + id}>${number(data.version)}</a>`],
    ]} />
    <div class="tabs" role="tablist" aria-label="Parts of the table" onKeyDown=${tabKey}>
      ${TABS.map((one, index) => html`<button key=${one} id=${"tab-" + index} role="tab" aria-selected=${one === tab} aria-controls="tab-panel"
        tabindex=${one === tab ? 0 : -1} onClick=${() => setTab(one)}>${one}</button>`)}
    </div>
    <div id="tab-panel" role="tabpanel" aria-labelledby=${"tab-" + TABS.indexOf(tab)}>
      ${tab === "Inside" && html`<${Inside} table=${data} path=${path} />`}
      ${tab === "Schema" && html`<${Schema} table=${data} />`}
      ${tab === "Rows" && html`<${Rows} path=${path} name=${name} />`}
      ${tab === "Readers" && html`<${Readers} path=${path} />`}
      ${tab === "Use it" && html`<${Snippets} table=${data} name=${name} />`}
    </div>
    ${asked === "drop" && html`<${Confirm} title=${"Drop " + plain(name)} verb="Drop the table" typed=${plain(data.name)}
      text="Its rows stay in the trash until the grace window ends." onClose=${() => ask(null)}
      act=${async () => { await change("DELETE", path); location.hash = "#/trash"; }} />`}
    ${asked === "compact" && html`<${Confirm} title=${"Plan a compaction of " + plain(name)} verb="Plan it"
      text="What is worth compacting becomes merge tasks; workers take them." onClose=${() => ask(null)}
      act=${async () => { await change("POST", path + "/merges"); location.hash = "#/tasks"; }} />`}
    ${asked === "property" && html`<${Property} path=${path} done=${again} onClose=${() => ask(null)} />`}`;
}

function Property({ path, done, onClose }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  return html`<${Confirm} title="Set a property" verb="Set it" onClose=${onClose}
    text=${html`
      <label>Name <input autofocus value=${key} onInput=${(e) => setKey(e.currentTarget.value)} /></label>
      <label>Value, or nothing to remove it <input value=${value} onInput=${(e) => setValue(e.currentTarget.value)} /></label>`}
    act=${async () => {
      await change("PATCH", path, value === "" ? { remove: [key] } : { properties: { [key]: value } });
      done();
    }} />`;
}

function Inside({ table, path }) {
  const [asked, ask] = useState(null);
  const segments = usePages(path + "/segments", {}, 1000);
  const partitions = usePages(path + "/partitions");
  const indexes = useResource(path + "/indexes");
  const tasks = useResource(state.value.merge_tasks > 0 ? path + "/tasks?limit=50" : null, 2);
  const regions = useResource(table.primary_key.length ? path + "/regions" : null);
  if (segments.next && segments.items.length < 2000) segments.more();
  const settings = [
    ["primary key", table.primary_key.map(plain).join(", ")], ["partitioned by", plain(table.partitioned_by)], ["sorted by", plain(table.sorted_by)],
    ["event time", table.event_time === null ? "" : plain(table.event_time)], ["oldest kept version", number(table.oldest_version)],
    ["created", moment(table.created_at)],
  ];
  return html`
    <section class="panel"><h2>Levels ${table.event_time === null ? "" : "along event time"}</h2>
      <${Problem} error=${segments.error} />
      ${segments.loaded ? html`<${Levels} segments=${segments.items} version=${table.version} eventTime=${table.event_time} more=${segments.next} tasks=${tasks.data?.items} />` : html`<${Waiting} />`}
    </section>
    <div class="columns">
      <section><h2>Settings</h2>
        <dl class="facts">${settings.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${value || html`<span class="dim">none</span>`}</dd></div>`)}</dl>
        <h2>Properties</h2>
        ${Object.keys(table.properties).length ? html`<dl class="facts">${Object.entries(table.properties).map(([key, value]) => html`
          <div key=${key}><dt>${plain(key)}</dt><dd>${plain(value)}</dd></div>`)}</dl>` : html`<p class="dim">None are set.</p>`}
        <h2>Tags</h2>
        ${Object.keys(table.tags).length ? html`<ul class="chips">${Object.entries(table.tags).map(([tag, version]) => html`
          <li key=${tag}><${Badge}>${plain(tag)}<//> version ${number(version)}</li>`)}</ul>` : html`<p class="dim">No version has a name.</p>`}
      </section>
      <section><h2>Partitions</h2>
        <${Problem} error=${partitions.error} />
        <${Grid} label="Partitions" rows=${partitions.items} onEnd=${partitions.more} tall=${260} empty="There are no segments." columns=${[
          { name: "partition", show: (row) => (row.partition ? plain(row.partition) : html`<span class="dim">all rows</span>`) },
          { name: "rows", kind: "number", show: (row) => number(row.rows) }, { name: "bytes", kind: "number", show: (row) => size(row.bytes) },
          { name: "segments", kind: "number", show: (row) => number(row.segments) }]} />
        <div class="bar"><h2>Indexes</h2>${may("write") && html`<button class="small" onClick=${() => ask(true)}>New index</button>`}</div>
        <${Problem} error=${indexes.error} />
        <${Grid} label="Indexes" rows=${indexes.data?.items ?? []} tall=${220} empty="No column has an index." columns=${[
          { name: "name", show: (row) => plain(row.name) }, { name: "column", show: (row) => plain(row.column) }, { name: "kind", show: (row) => row.kind },
          { name: "covers", kind: "number", show: (row) => `${number(row.covered)} of ${number(row.segments)}` },
          { name: "bytes", kind: "number", show: (row) => size(row.bytes) },
          ...(may("write") ? [{ name: "do", label: html`<span class="hidden">Actions</span>`, show: (row) => html`
            <button class="small" aria-label=${"Drop index " + plain(row.name)} onClick=${() => ask(row)}>Drop</button>` }] : [])]} height=${36} />
        ${table.primary_key.length > 0 && html`<h2>Regions</h2>
          <${Grid} label="Regions" rows=${regions.data?.items ?? []} tall=${220} empty="Nothing was put yet." columns=${[
            { name: "region", kind: "number", show: (row) => number(row.number) }, { name: "epoch", kind: "number", show: (row) => number(row.epoch) },
            { name: "log covered to", kind: "number", show: (row) => number(row.covered) },
            { name: "segments", kind: "number", show: (row) => number(row.segments) },
            { name: "owner", show: (row) => (row.owner ? html`<span class="cell" title=${plain(row.owner)}>${plain(row.owner)}</span>` : html`<span class="dim">nobody</span>`) }]} />`}
      </section>
    </div>
    ${asked === true && html`<${NewIndex} table=${table} path=${path} onClose=${() => ask(null)} done=${indexes.again} />`}
    ${asked?.name !== undefined && html`<${Confirm} title=${"Drop index " + plain(asked.name)} verb="Drop the index" typed=${plain(asked.name)} onClose=${() => ask(null)}
      text="No row goes with it; queries that used it read more." act=${async () => { await change("DELETE", path + "/indexes" + query({ name: asked.name })); indexes.again(); }} />`}`;
}

function NewIndex({ table, path, onClose, done }) {
  const columns = table.schemas.find((one) => one.id === table.schema_id).columns;
  const [column, setColumn] = useState(columns[0].name);
  const [kind, setKind] = useState("btree");
  return html`<${Confirm} title="New index" verb="Make it" onClose=${onClose}
    text=${html`
      <label>Column <select autofocus value=${column} onChange=${(e) => setColumn(e.currentTarget.value)}>
        ${columns.map((one) => html`<option key=${one.id} value=${one.name}>${plain(one.name)}</option>`)}</select></label>
      <label>Kind <select value=${kind} onChange=${(e) => setKind(e.currentTarget.value)}>
        ${KINDS.map(([one, what]) => html`<option key=${one} value=${one}>${one}: ${what}</option>`)}</select></label>`}
    act=${async () => { await change("POST", path + "/indexes", { column, kind }); done(); }} />`;
}

function Schema({ table }) {
  const [chosen, choose] = useState(table.schema_id);
  const schema = table.schemas.find((one) => one.id === chosen) ?? table.schemas.at(-1);
  const before = table.schemas[table.schemas.indexOf(schema) - 1];
  const isNew = (column) => before !== undefined && !before.columns.some((one) => one.id === column.id);
  return html`
    ${table.schemas.length > 1 && html`<p><label>Schema
      <select value=${String(chosen)} onChange=${(e) => choose(Number(e.currentTarget.value))}>
        ${table.schemas.map((one) => html`<option key=${one.id} value=${String(one.id)}>${one.id}${one.id === table.schema_id ? " (current)" : ""}</option>`)}
      </select></label></p>`}
    <${Grid} label="Columns" rows=${schema.columns} columns=${[
      { name: "#", label: "#", kind: "number", show: (row) => row.id, width: "4em" },
      { name: "column", show: (row) => html`${plain(row.name)} ${table.primary_key.includes(row.name) && html`<${Badge}>key<//>`}
        ${table.event_time === row.name && html`<${Badge}>event time<//>`} ${isNew(row) && html`<${Badge} kind="good">new in this schema<//>`}` },
      { name: "type", show: (row) => html`<code>${plain(row.type)}</code>` },
      { name: "required", show: (row) => (row.required ? "yes" : "") },
      { name: "doc", show: (row) => plain(row.doc ?? "") }]} />`;
}

export function RowGrid({ rows, label }) {
  return html`<${Grid} label=${label} rows=${rows.rows} tall=${460} empty="No rows." columns=${rows.columns.map((column, index) => ({
    name: column.name, kind: /int|float|double|decimal/.test(column.type) ? "number" : "",
    show: (row) => html`<span class=${"cell" + (row[index] === null ? " dim" : "")} title=${cell(row[index])}>${cell(row[index])}</span>` }))} />`;
}

function Rows({ path, name }) {
  const { data, error } = useResource(path + "/rows?limit=100");
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`;
  return html`<p class="dim">${plural(data.rows.length, "row")} of version ${number(data.version)}${data.more ? "; there are more" : ""}${data.cut ? "; long values are cut" : ""}.</p>
    <${RowGrid} rows=${data} label=${"Rows of " + plain(name)} />`;
}

function Readers({ path }) {
  const { data, error } = useResource(path + "/readers");
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`;
  return html`<${Grid} label="Engines" rows=${data.items} columns=${[
    { name: "engine", show: (row) => row.engine }, { name: "version", show: (row) => row.version },
    { name: "reads it", show: (row) => html`<${Badge} kind=${row.reads ? "good" : "bad"}>${row.reads ? "yes" : "no"}<//>` },
    { name: "why not", show: (row) => plain(row.reason ?? "") }]} />`;
}

function Snippets({ table, name }) {
  const quoted = [table.database, table.name].map((part) => "`" + part.replaceAll("`", "``") + "`").join(".");
  const snippets = [
    ["SQL", `select * from ${quoted} limit 10`],
    ["Python", `import moulin\n\nlake = moulin.connect("${location.host.startsWith("127.") ? "path/to/lake" : "grpc://" + location.hostname + ":9560"}")\ntable = lake.table(${JSON.stringify(name)})\nprint(table.scan(limit=10).to_arrow())`],
    ["curl", `curl ${me.value.tokens ? '-H "authorization: Bearer $MOULIN_TOKEN" ' : ""}${location.origin}/api/v1/tables/${table.id}`],
    ["pyiceberg", `from pyiceberg.catalog.rest import RestCatalog\n\ncatalog = RestCatalog("lake", uri="${location.origin}/iceberg"${me.value.tokens ? ', token="..."' : ""})\ntable = catalog.load_table((${JSON.stringify(table.database)}, ${JSON.stringify(table.name)}))`],
  ];
  return snippets.map(([kind, text]) => html`
    <section key=${kind} class="panel"><div class="bar"><h2>${kind}</h2><${Copy} text=${text} /></div><pre tabindex="0">${plain(text).replaceAll("\\u000a", "\n")}</pre></section>`);
}
