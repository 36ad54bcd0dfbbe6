// What was dropped and can be brought back.

import { html, useEffect, useState } from "../vendor/preact.js";
import { change, may } from "../api.js";
import { Confirm, Grid, Problem, Waiting } from "../parts.js";
import { usePages } from "../resources.js";
import { millis, moment, plain, span } from "../text.js";

export default function Trash() {
  const found = usePages("/trash");
  const [asked, ask] = useState(null);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const columns = [
    { name: "what", show: (row) => row.kind.replace("_", " ") },
    { name: "name", show: (row) => plain(row.database === null ? row.name : `${row.database}.${row.name}`) },
    { name: "dropped", show: (row) => moment(row.dropped_at) },
    { name: "gone for good in", show: (row) => html`<span title=${moment(row.delete_at)}>${span((millis(row.delete_at) - now) / 1000)}</span>` },
    { name: "do", label: html`<span class="hidden">Actions</span>`, show: (row) => may(row.kind === "ingest_token" ? "admin" : "write") && html`
      <button class="small" aria-label=${"Bring back " + plain(row.name)} onClick=${() => ask(row)}>Bring back</button>` },
  ];
  return html`
    <h1>Trash</h1>
    <${Problem} error=${found.error} />
    ${found.loaded ? html`<${Grid} label="What was dropped" columns=${columns} rows=${found.items} onEnd=${found.more} height=${36} empty="The trash is empty." />` : html`<${Waiting} />`}
    ${asked && html`<${Confirm} title=${"Bring back " + plain(asked.name)} verb="Bring it back" onClose=${() => ask(null)}
      text="It is as it was when it was dropped."
      act=${async () => { await change("POST", `/trash/${asked.id}/resurrect`); found.again(); }} />`}`;
}
