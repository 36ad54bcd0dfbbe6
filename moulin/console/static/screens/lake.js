// The lake as a whole: totals, what is stuck, and its tables.

import { html, useState } from "../vendor/preact.js";
import { Bars, Cards, Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { ago, moment, number, plain, plural, size } from "../text.js";

const COLUMNS = [
  { name: "database", show: (row) => plain(row.database), width: "18%" },
  { name: "table", show: (row) => html`<a href=${"#/table/" + row.id}>${plain(row.name)}</a>`, width: "32%" },
  { name: "rows", kind: "number", show: (row) => number(row.rows) },
  { name: "bytes", kind: "number", show: (row) => size(row.bytes) },
  { name: "segments", kind: "number", show: (row) => number(row.segments) },
  { name: "version", kind: "number", show: (row) => number(row.version) },
];

export default function Lake() {
  const { data, error } = useResource("/lake", 15);
  const [text, setText] = useState("");
  const tables = usePages("/tables", { q: text.trim() });
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`;
  const counts = data.minutes.map((one) => one.versions);
  const hour = counts.reduce((sum, one) => sum + one, 0);
  return html`
    <h1>Lake</h1>
    <p class="dim path">${plain(data.uri)}</p>
    ${data.stuck.map((sentence) => html`<p key=${sentence} class="notice bad" role="alert">${plain(sentence)}</p>`)}
    <${Problem} error=${error} />
    <${Cards} figures=${[
      ["tables", number(data.tables), plural(data.databases, "database")],
      ["rows", number(data.rows)],
      ["in segments", size(data.bytes)],
      ["segments", number(data.segments)],
      ["version", number(data.version), data.committed_at ? moment(data.committed_at) : ""],
      ["merge tasks", html`<a href="#/tasks">${number(data.merge_tasks)}</a>`, plural(data.quarantined, "in quarantine", "in quarantine")],
      ["in the trash", html`<a href="#/trash">${number(data.dropped)}</a>`, `${plural(data.to_delete, "object")} wait for deletion`],
    ]} />
    <section class="panel">
      <h2>Versions by the minute <span class="dim">· ${plural(hour, "version")} in the last hour${data.committed_at ? `, the newest ${ago(data.committed_at)}` : ""}</span></h2>
      <${Bars} values=${counts} label=${`${plural(hour, "version")} in the last hour`} />
    </section>
    <section>
      <div class="bar"><h2>Tables</h2>
        <label class="filter"><span class="hidden">Filter tables</span>
          <input type="search" placeholder="Filter by name" value=${text} onInput=${(e) => setText(e.currentTarget.value)} /></label></div>
      <${Problem} error=${tables.error} />
      ${tables.loaded ? html`<${Grid} label="Tables" columns=${COLUMNS} rows=${tables.items} onEnd=${tables.more}
        empty=${text ? "No table has that in its name." : "The lake has no tables yet."} />` : html`<${Waiting} />`}
    </section>`;
}
