// The branches of the lake.

import { html } from "../vendor/preact.js";
import { Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { moment, number, plain } from "../text.js";
import { VersionLine, lineOf } from "./version-line.js";

const COLUMNS = [
  { name: "branch", show: (row) => plain(row.name) },
  { name: "began at version", kind: "number", show: (row) => number(row.version) },
  { name: "made", show: (row) => moment(row.created_at) },
  { name: "ends", show: (row) => (row.expires_at ? moment(row.expires_at) : html`<span class="dim">never</span>`) },
  { name: "tables", kind: "number", show: (row) => number(row.tables) },
  { name: "written to", kind: "number", show: (row) => number(row.opened) },
];

export default function Branches() {
  const found = usePages("/branches");
  const all = useResource("/branches?dropped=true&limit=1000");
  const past = useResource("/lake/activity?limit=80");
  return html`
    <h1>Branches</h1>
    <p class="dim">Lines of versions beside main, which copy nothing. Make one with <code>moulin branch create NAME</code>, bring it to main with <code>moulin branch publish NAME</code>.</p>
    ${all.data && past.data && html`<section class="panel"><h2>Versions and branches</h2>
      <${VersionLine} versions=${lineOf(past.data.items)} branches=${all.data.items} /></section>`}
    <${Problem} error=${found.error} />
    ${found.loaded ? html`<${Grid} label="Branches" columns=${COLUMNS} rows=${found.items} onEnd=${found.more} empty="The lake has no branches." />` : html`<${Waiting} />`}`;
}
