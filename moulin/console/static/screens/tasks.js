// Merge tasks: compactions that wait for a worker, or that one has.

import { html, useState } from "../vendor/preact.js";
import { change, may } from "../api.js";
import { Badge, Confirm, Grid, Problem, Waiting } from "../parts.js";
import { usePages } from "../resources.js";
import { ago, moment, number, plain, span } from "../text.js";

const KINDS = { claimed: "good", quarantined: "bad", lapsed: "bad" };

export default function Tasks() {
  const found = usePages("/tasks");
  const [asked, ask] = useState(null);
  const columns = [
    { name: "task", show: (row) => html`<code title=${row.id}>${row.id.slice(-8)}</code>` },
    { name: "table", show: (row) => html`<a href=${"#/table/" + row.table_id}>${plain(row.table)}</a>` },
    { name: "state", show: (row) => html`<${Badge} kind=${KINDS[row.state] ?? ""}>${row.state}<//>` },
    { name: "segments", kind: "number", show: (row) => number(row.segments) },
    { name: "to level", kind: "number", show: (row) => row.level },
    { name: "planned", show: (row) => html`<span title=${moment(row.created_at)}>${ago(row.created_at)}</span>` },
    { name: "worker", show: (row) => plain(row.worker ?? "") },
    { name: "free in", show: (row) => (row.free_in_seconds === null ? "" : span(row.free_in_seconds)) },
    { name: "failures", kind: "number", show: (row) => number(row.failures) },
    { name: "last error", show: (row) => html`<span class="cell" title=${plain(row.last_error ?? "")}>${plain(row.last_error ?? "")}</span>` },
  ];
  if (may("pipeline")) {
    columns.push({ name: "do", label: html`<span class="hidden">Actions</span>`, show: (row) => html`
      <button class="small" aria-label=${"Release task " + row.id.slice(-8)} onClick=${() => ask({ ...row, what: "release" })}>Release</button>
      <button class="small" aria-label=${"Delete task " + row.id.slice(-8)} onClick=${() => ask({ ...row, what: "delete" })}>Delete</button>` });
  }
  return html`
    <h1>Tasks</h1>
    <${Problem} error=${found.error} />
    ${found.loaded ? html`<${Grid} label="Merge tasks" columns=${columns} rows=${found.items} onEnd=${found.more} height=${36} empty="No merge task waits: every table is in shape, or nobody planned a compaction." />` : html`<${Waiting} />`}
    ${asked?.what === "release" && html`<${Confirm} title="Release the task" verb="Release it" onClose=${() => ask(null)}
      text="It can be claimed at once: it is taken from its worker, out of its back-off or out of quarantine."
      act=${async () => { await change("POST", `/tasks/${asked.id}/release`); found.again(); }} />`}
    ${asked?.what === "delete" && html`<${Confirm} title="Delete the task" verb="Delete it" typed=${asked.id.slice(-8)} onClose=${() => ask(null)}
      text="Its segments stay as they are, and are free to be planned again."
      act=${async () => { await change("DELETE", `/tasks/${asked.id}`); found.again(); }} />`}`;
}
