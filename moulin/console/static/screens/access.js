// The access tokens of the server.

import { html, useState } from "../vendor/preact.js";
import { change, may, me, query } from "../api.js";
import { Badge, Confirm, Copy, Dialog, Grid, Problem, Waiting } from "../parts.js";
import { usePages } from "../resources.js";
import { moment, plain } from "../text.js";

export default function Access() {
  if (!me.value.tokens) {
    return html`<h1>Access</h1><p class="notice">This server requires no tokens: everyone has full access. It listens on this
      machine alone; set <code>auth</code> to <code>on</code> in <code>[serve]</code> of moulin.toml to ask for them.</p>`;
  }
  if (!may("admin")) {
    return html`<h1>Access</h1><p>You are <strong>${plain(me.value.name)}</strong>, with the role <${Badge}>${me.value.role}<//>. Seeing all tokens takes the role admin.</p>`;
  }
  return html`<${Tokens} />`;
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
    ${made && html`<${Dialog} title=${"Token " + plain(made.name)} onClose=${() => setMade(null)}>
      <p>Keep the secret now; it is not shown again.</p>
      <p><code class="secret">${made.secret}</code> <${Copy} text=${made.secret} /></p><//>`}`;
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
