// What happens to the lake, as it happens: every version, newest first.

import { html } from "../vendor/preact.js";
import { Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { moment, number, plain } from "../text.js";
import { VersionLine, lineOf } from "./version-line.js";

const COLUMNS = [
  { name: "version", width: "8em", show: (row) => html`<span class="knot">${number(row.version)}</span>` },
  { name: "when", width: "13em", show: (row) => moment(row.at) },
  { name: "what", width: "14em", show: (row) => plain(row.kind) },
  { name: "tables", show: (row) => row.changes.slice(0, 4).map((one, index) => html`${index > 0 && ", "}<a key=${one.table_id + index} href=${"#/table/" + one.table_id}>${plain(one.table)}</a>`)
    .concat(row.tables > 4 ? [` and ${number(row.tables - 4)} more`] : []) },
  { name: "new rows", kind: "number", show: (row) => number(row.changes.reduce((sum, one) => sum + BigInt(one.added_rows), 0n)) },
];

export default function Activity({ rest: [version] }) {
  const wanted = /^\d{1,18}$/.test(version ?? "") ? { since: String(BigInt(version) > 3n ? BigInt(version) - 3n : 0n) } : {};
  const found = usePages("/lake/activity", wanted, 100);
  const branches = useResource("/branches?dropped=true&limit=1000");
  return html`
    <h1>Activity</h1>
    ${version && html`<p>From before version ${number(version)} until now. <a href="#/activity">Show everything</a></p>`}
    <${Problem} error=${found.error} />
    ${found.items.length > 1 && html`<section class="panel"><h2>Versions of the lake</h2>
      <${VersionLine} versions=${lineOf(found.items)} branches=${branches.data?.items ?? []} /></section>`}
    ${found.loaded ? html`<${Grid} label="Versions of the lake" columns=${COLUMNS} rows=${found.items} onEnd=${found.more} tall=${700} empty="Nothing happened yet." />` : html`<${Waiting} />`}`;
}
