// The past of a table: a line of versions with their names, what two of them differ in, and the way back.

import { html, useMemo, useState } from "../vendor/preact.js";
import { change, may, query } from "../api.js";
import { Badge, Confirm, Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { moment, number, plain, plural } from "../text.js";
import { RowGrid } from "./table.js";
import { VersionLine } from "./version-line.js";

const NONE = [];
const QUIET = new Set(["merge", "compact", "fold", "replace"]);

export default function Versions({ rest: [id] }) {
  const path = "/tables/" + id;
  const table = useResource(path);
  const commits = usePages(path + "/commits", {}, 100);
  const [from, setFrom] = useState(null);
  const [to, setTo] = useState(null);
  const [asked, ask] = useState(null);
  if (!table.data) return table.error ? html`<h1>Versions</h1><${Problem} error=${table.error} />` : html`<${Waiting} />`;
  const name = `${table.data.database}.${table.data.name}`;
  const tags = Map.groupBy(Object.entries(table.data.tags), ([, version]) => version);
  const named = Object.fromEntries([...tags].map(([version, found]) => [version, found.map(([tag]) => tag)]));
  const head = table.data.version;
  const readable = (row) => BigInt(row.version) >= BigInt(table.data.oldest_version);
  const pick = (which, name, row) => html`<input type="radio" name=${name} aria-label=${`Compare ${name} version ${row.version}`}
    checked=${which === row.version} onChange=${() => (name === "from" ? setFrom : setTo)(row.version)} />`;
  return html`
    <div class="bar"><h1>Versions of <a href=${"#/table/" + id}>${plain(name)}</a></h1></div>
    <p class="dim">Choose two versions to see what they differ in. The oldest that can still be read is ${number(table.data.oldest_version)}.</p>
    <${Problem} error=${commits.error} />
    ${commits.items.length > 1 && html`<section class="panel"><h2>Versions as a line</h2><${Line} commits=${commits.items} tags=${named} table=${table.data} /></section>`}
    ${commits.loaded ? html`<${Grid} label="Versions" rows=${commits.items} onEnd=${commits.more} height=${34} tall=${420} columns=${[
      { name: "from", width: "4em", show: (row) => readable(row) && pick(from, "from", row) },
      { name: "to", width: "4em", show: (row) => readable(row) && pick(to, "to", row) },
      { name: "version", width: "9em", show: (row) => html`<span class=${"knot" + (QUIET.has(row.kind) ? " quiet" : "")}>${number(row.version)}</span>` },
      { name: "when", show: (row) => moment(row.at) },
      { name: "what", show: (row) => html`${plain(row.kind)} ${row.version === head && html`<${Badge} kind="good">newest<//>`}
        ${(tags.get(row.version) ?? []).map(([tag]) => html`<${Badge} key=${tag}>${plain(tag)}<//>`)}` },
      { name: "new rows", kind: "number", show: (row) => number(row.added_rows) },
      { name: "schema", kind: "number", show: (row) => row.schema_id },
      { name: "do", label: html`<span class="hidden">Actions</span>`, show: (row) => readable(row) && may("write") && html`
        <button class="small" onClick=${() => ask({ what: "tag", version: row.version })}>Tag</button>
        ${row.version !== head && html`<button class="small" onClick=${() => ask({ what: "restore", version: row.version })}>Restore</button>`}` }]} />` : html`<${Waiting} />`}
    ${from !== null && to !== null && html`<${Diff} path=${path} from=${from} to=${to} />`}
    ${asked?.what === "restore" && html`<${Confirm} title=${`Restore version ${asked.version}`} verb="Restore it" typed=${plain(table.data.name)}
      text=${`The rows and the schema of ${plain(name)} become those of version ${asked.version}, as a new version. Nothing is lost: version ${head} stays in the history.`}
      onClose=${() => ask(null)} act=${() => change("POST", path + "/restore", { version: asked.version, expected_version: head })} />`}
    ${asked?.what === "tag" && html`<${Tag} path=${path} version=${asked.version} onClose=${() => ask(null)} />`}`;
}

// The table's versions, and what happened to it on branches.
function Line({ commits, tags, table: { database, name } }) {
  const branches = useResource("/branches?dropped=true&limit=1000").data?.items ?? NONE;
  const past = useResource(branches.length ? "/lake/activity?limit=200" : null).data?.items ?? NONE;
  const versions = useMemo(() => {
    const beside = past.flatMap((one) => one.changes.filter((change) => change.branch !== null && change.table === `${database}@${change.branch}.${name}`)
      .map((change) => ({ version: one.version, at: one.at, kind: change.kind, what: change.kind, on: change.branch })));
    const mine = commits.map((one) => ({ version: one.version, at: one.at, kind: one.kind, what: one.kind, on: null }));
    const once = new Map([...mine, ...beside].map((one) => [one.version, one]));
    return [...once.values()].sort((a, b) => Number(BigInt(b.version) - BigInt(a.version)));
  }, [commits, past, database, name]);
  const touched = branches.filter((one) => versions.some((dot) => dot.on === one.name));
  return html`<${VersionLine} versions=${versions} branches=${touched} tags=${tags} />`;
}

function Tag({ path, version, onClose }) {
  const [name, setName] = useState("");
  return html`<${Confirm} title=${`Name version ${version}`} verb="Name it" onClose=${onClose}
    text=${html`Clean-up leaves a version that has a name. <label>Name <input autofocus value=${name} onInput=${(e) => setName(e.currentTarget.value)} /></label>`}
    act=${() => change("POST", path + "/tags", { name, version })} />`;
}

function Diff({ path, from, to }) {
  const [since, until] = BigInt(from) <= BigInt(to) ? [from, to] : [to, from];
  const { data, error } = useResource(path + "/diff" + query({ since, until, limit: 200 }));
  const title = html`<h2>From version ${number(since)} to ${number(until)}</h2>`;
  if (!data) return html`<section class="panel">${title}${error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`}</section>`;
  const properties = Object.entries(data.properties);
  return html`
    <section class="panel" aria-live="polite">${title}
      <p><${Badge} kind="good">+ ${plural(data.inserted, "row")}<//> <${Badge}>~ ${plural(data.updated, "row")}<//> <${Badge} kind="bad">− ${plural(data.deleted, "row")}<//>
        <span class="dim"> · ${plural(data.segments_added, "segment")} came, ${number(data.segments_removed)} went</span></p>
      ${data.schema_changes.length > 0 && html`<ul>${data.schema_changes.map((line) => html`<li key=${line}>${plain(line)}</li>`)}</ul>`}
      ${properties.length > 0 && html`<ul>${properties.map(([key, [before, after]]) => html`
        <li key=${key} class="long">property ${plain(key)}: ${before === null ? "unset" : plain(before)} → ${after === null ? "unset" : plain(after)}</li>`)}</ul>`}
      ${data.rows.rows.length > 0 && html`<${RowGrid} rows=${data.rows} label="Rows that changed" />`}
      ${data.rows.more && html`<p class="dim">These are the first ${number(data.rows.rows.length)} of them.</p>`}
    </section>`;
}
