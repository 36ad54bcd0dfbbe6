// Streams of collectors: how far each is in tables, what waits, and what was set aside.

import { html } from "../vendor/preact.js";
import { Badge, Grid, Problem, Waiting } from "../parts.js";
import { usePages, useResource } from "../resources.js";
import { ago, moment, number, plain, plural, size, span } from "../text.js";
import { Flow } from "./flow.js";

const STREAMS = [
  { name: "collector", show: (row) => html`<span title=${row.id}>${plain(row.description || row.collector)}</span>` },
  { name: "state", show: (row) => (row.missing !== null ? html`<${Badge} kind="bad">stuck at ${number(row.missing)}<//>` : row.stopped_at ? html`<${Badge}>ended<//>` : html`<${Badge} kind="good">active<//>`) },
  { name: "taken in up to", kind: "number", show: (row) => number(row.frontier) },
  { name: "waiting", kind: "number", show: (row) => number(row.waiting) },
  { name: "bytes", kind: "number", show: (row) => size(row.waiting_bytes) },
  { name: "lag", kind: "number", show: (row) => span(row.lag_seconds) },
  { name: "tables", show: (row) => row.tables.map((one, index) => html`${index > 0 && ", "}<a key=${one.table_id} href=${"#/table/" + one.table_id}>${plain(one.table)}</a>`) },
];
const ASIDES = [
  { name: "version", kind: "number", show: (row) => number(row.version) },
  { name: "stream", show: (row) => row.stream_id.slice(0, 8) },
  { name: "offset", kind: "number", show: (row) => number(row.offset) },
  { name: "records", kind: "number", show: (row) => number(row.records) },
  { name: "reason", show: (row) => plain(row.reason) },
  { name: "where", show: (row) => plain(row.path) || html`<span class="dim">deleted</span>` },
];
const MEMBERS = [
  { name: "member", show: (row) => plain(row.id) }, { name: "kind", show: (row) => row.kind },
  { name: "endpoint", show: (row) => plain(row.endpoint) }, { name: "last heard", show: (row) => html`<span title=${moment(row.heartbeat_at)}>${ago(row.heartbeat_at)}</span>` },
];

export default function Streams() {
  const streams = useResource("/streams?limit=1000", 5);
  const asides = usePages("/asides");
  const members = useResource("/members", 5);
  if (!streams.data) return streams.error ? html`<h1>Streams</h1><${Problem} error=${streams.error} />` : html`<${Waiting} />`;
  const rows = streams.data.items;
  const waiting = rows.reduce((sum, one) => sum + one.waiting, 0);
  return html`
    <h1>Streams</h1>
    <p class="dim">${plural(rows.length, "stream")}, ${plural(waiting, "baby segment")} not in tables yet.</p>
    <${Problem} error=${streams.error} />
    <${Flow} streams=${rows} />
    <h2>All streams</h2>
    <${Grid} label="Streams" columns=${STREAMS} rows=${rows} empty="No collector has sent anything. Start one with: moulin up" />
    <h2>Set aside</h2>
    <${Problem} error=${asides.error} />
    <${Grid} label="Records set aside" columns=${ASIDES} rows=${asides.items} onEnd=${asides.more} empty="No records were set aside." />
    <h2>Members</h2>
    <${Grid} label="Members" columns=${MEMBERS} rows=${members.data?.items ?? []} empty="No nursery or collector of a cluster has reported." />`;
}
