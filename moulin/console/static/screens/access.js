// The access tokens of the server.

import { html, useState } from "../vendor/preact.js";
import { change, may, me, query } from "../api.js";
import { Badge, Confirm, Copy, Dialog, Grid, Problem, Waiting } from "../parts.js";
import { usePages } from "../resources.js";
import { moment, plain } from "../text.js";

export default function Access() {
  if (!me.value.tokens) {
    return html`<h1>Access</h1><p class="notice">This server asks for no tokens: whoever reaches it may do everything. It listens on this
      machine alone; set <code>auth</code> to <code>on</code> in <code>[serve]</code> of moulin.toml to ask for them.</p><${IngestTokens} />`;
  }
  if (!may("admin")) {
    return html`<h1>Access</h1><p>You are <strong>${plain(me.value.name)}</strong>, with the role <${Badge}>${me.value.role}<//>. Seeing all tokens takes the role admin.</p>`;
  }
  return html`<${Tokens} /><${IngestTokens} />`;
}

function Tokens() {
  const found = usePages("/access/tokens");
  const [asked, ask] = useState(null);
  const [made, setMade] = useState(null);
  const columns = [
    { name: "name", show: (row) => html`${plain(row.name)} ${row.name === me.value?.name && html`<${Badge}>you<//>`}` },
    { name: "role", show: (row) => row.role },
    { name: "ends", show: (row) => (row.expires_at === null ? html`<span class="dim">never</span>` : moment(row.expires_at)) },
    { name: "do", label: html`<span class="hidden">Actions</span>`, show: (row) => html`
      <button class="small" aria-label=${"Rotate " + plain(row.name)} onClick=${() => ask({ rotate: row.name })}>Rotate</button>
      <button class="small" aria-label=${"Revoke " + plain(row.name)} onClick=${() => ask(row.name)}>Revoke</button>` },
  ];
  return html`
    <div class="bar"><h1>Access</h1><span class="buttons"><button class="main" onClick=${() => ask(true)}>New token</button></span></div>
    <p class="dim">Each role includes those before it: read, write, pipeline, admin.</p>
    <${Problem} error=${found.error} />
    ${found.loaded ? html`<${Grid} label="Tokens" columns=${columns} rows=${found.items} onEnd=${found.more} height=${36} />` : html`<${Waiting} />`}
    ${asked === true && html`<${NewToken} onClose=${() => ask(null)} onMade=${(one) => { setMade(one); found.again(); }} />`}
    ${typeof asked === "string" && html`<${Confirm} title=${"Revoke " + plain(asked)} verb="Revoke it" typed=${plain(asked)} onClose=${() => ask(null)}
      text="It is refused from now on, wherever it is used."
      act=${async () => { await change("DELETE", "/access/tokens" + query({ name: asked })); found.again(); }} />`}
    ${asked?.rotate !== undefined && html`<${Rotate} name=${asked.rotate} onClose=${() => ask(null)}
      text="It gets another secret. The former one is refused from now on, wherever it is used."
      act=${async (days) => { setMade(await change("POST", "/access/tokens/rotate", { name: asked.rotate, days })); found.again(); }} />`}
    ${made && html`<${Made} made=${made} onClose=${() => setMade(null)} />`}`;
}

// A secret, shown once.
function Made({ made, onClose }) {
  return html`<${Dialog} title=${"Token " + plain(made.name)} onClose=${onClose}>
    <p>Keep the secret now; it is not shown again.</p>
    <p><code class="secret">${made.secret}</code> <${Copy} text=${made.secret} /></p><//>`;
}

function Rotate({ name, text, act, onClose }) {
  const [days, setDays] = useState("");
  return html`<${Confirm} title=${"Rotate " + plain(name)} verb="Make a new secret" typed=${plain(name)} onClose=${onClose}
    text=${html`${text} <label>Days until it ends, or nothing to leave that as it is
      <input inputmode="numeric" value=${days} onInput=${(e) => setDays(e.currentTarget.value)} /></label>`}
    act=${() => act(days.trim() === "" ? null : Number(days))} />`;
}

// Who may send telemetry, and to which tables it goes.
function IngestTokens() {
  const found = usePages("/ingest/tokens");
  const [asked, ask] = useState(null);
  const [made, setMade] = useState(null);
  const columns = [
    { name: "token", show: (row) => `${plain(row.database)}.${plain(row.name)}` },
    { name: "secret", show: (row) => html`<span class="dim">… ${plain(row.hint)}</span>` },
    { name: "ends", show: (row) => (row.expires_at === null ? html`<span class="dim">never</span>` : moment(row.expires_at)) },
    ...["traces", "logs", "metrics"].map((name) => ({ name, show: (row) => plain(row[name]) })),
    { name: "do", label: html`<span class="hidden">Actions</span>`, show: (row) => html`
      <button class="small" aria-label=${"Rotate " + plain(row.name)} onClick=${() => ask({ ...row, what: "rotate" })}>Rotate</button>
      <button class="small" aria-label=${"Drop " + plain(row.name)} onClick=${() => ask({ ...row, what: "drop" })}>Drop</button>` },
  ];
  return html`
    <h2>Tokens of senders</h2>
    <p class="dim">Who may send telemetry to collectors. Make one with <code>moulin token create DATABASE.NAME</code>.</p>
    <${Problem} error=${found.error} />
    ${found.loaded ? html`<${Grid} label="Tokens of senders" columns=${columns} rows=${found.items} onEnd=${found.more} height=${36} empty="There are none." />` : html`<${Waiting} />`}
    ${asked?.what === "rotate" && html`<${Confirm} title=${"Rotate " + plain(asked.name)} verb="Make a new secret" typed=${plain(asked.name)} onClose=${() => ask(null)}
      text="Former secrets count for one hour more, so that senders can change over."
      act=${async () => { setMade(await change("POST", `/ingest/tokens/${asked.id}/rotate`, { overlap_seconds: 3600 })); found.again(); }} />`}
    ${asked?.what === "drop" && html`<${Confirm} title=${"Drop " + plain(asked.name)} verb="Drop it" typed=${plain(asked.name)} onClose=${() => ask(null)}
      text="What it sends is refused. It can be brought back from the trash until its grace window ends."
      act=${async () => { await change("DELETE", `/ingest/tokens/${asked.id}`); found.again(); }} />`}
    ${made && html`<${Made} made=${made} onClose=${() => setMade(null)} />`}`;
}

function NewToken({ onClose, onMade }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("read");
  const [days, setDays] = useState("90");
  return html`<${Confirm} title="New token" verb="Make it" onClose=${onClose}
    text=${html`
      <label>Name <input autofocus required value=${name} onInput=${(e) => setName(e.currentTarget.value)} /></label>
      <label>Role <select value=${role} onChange=${(e) => setRole(e.currentTarget.value)}>
        ${["read", "write", "pipeline", "admin"].map((one) => html`<option key=${one}>${one}</option>`)}</select></label>
      <label>Days until it ends, or nothing for never <input inputmode="numeric" value=${days} onInput=${(e) => setDays(e.currentTarget.value)} /></label>`}
    act=${async () => onMade(await change("POST", "/access/tokens", { name, role, days: days === "" ? null : Number(days) }))} />`;
}
