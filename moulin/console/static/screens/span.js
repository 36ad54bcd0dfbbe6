// What is known of one span: its attributes, events, links and logs.

import { html, useState } from "../vendor/preact.js";
import { query } from "../api.js";
import { Badge, Copy, Problem, Waiting } from "../parts.js";
import { useResource } from "../resources.js";
import { instant, lines, plain, plural, took } from "../text.js";

const Pairs = ({ title, items }) => (items.length ? html`
  <h3>${title}</h3>
  <dl class="facts">${items.map((one) => html`<div key=${one.key}><dt>${plain(one.key)}</dt><dd>${plain(one.value)}</dd></div>`)}</dl>` : null);

const offset = (time, base) => (time === null ? "" : "+" + took(String(BigInt(time) - BigInt(base))));

export function SpanDetail({ path, at, base, span, onClose }) {
  const found = useResource(span.id === null ? null : `${path}/spans/${encodeURIComponent(span.id)}` + query({ at }));
  const [withLogs, showLogs] = useState(false);
  return html`
    <aside class="panel span" aria-label="The chosen span">
      <div class="bar"><h2>${plain(span.service || "no service")}: ${plain(span.name || "no name")}</h2>
        <button class="small" onClick=${onClose} aria-label="Close the span">✕</button></div>
      ${span.id === null && html`<p class="notice">The span was sent without an id: what else it had is in the table.</p>`}
      <${Problem} error=${found.error} />
      ${found.data ? found.data.items.map((one, index) => html`<${One} key=${index} one=${one} base=${base} />`)
        : span.id !== null && !found.error && html`<${Waiting} />`}
      ${span.id !== null && html`<h3>Logs</h3>
        ${withLogs ? html`<${Logs} path=${path} at=${at} base=${base} id=${span.id} />`
          : html`<button class="small" onClick=${() => showLogs(true)}>Show the logs of this span</button>`}`}
    </aside>`;
}

function One({ one, base }) {
  const facts = [
    ["span id", html`<code>${plain(one.span_id)}</code> <${Copy} text=${one.span_id} />`], ["began", `${instant(one.start, 9)} (${offset(one.start, base)})`],
    ["took", took(one.duration)], ["kind", plain(one.kind)],
    ["status", html`${one.status_code === "error" ? html`<${Badge} kind="bad">error<//>` : plain(one.status_code)} ${plain(one.status_message)}`],
    ["scope", plain([one.scope_name, one.scope_version].filter(Boolean).join(" "))], ["trace state", plain(one.trace_state)],
  ].filter(([name, value]) => value !== "" && (name !== "status" || one.status_code !== "unset"));
  const dropped = [["attributes", one.dropped_attributes], ["events", one.dropped_events], ["links", one.dropped_links]]
    .filter(([, count]) => count > 0).map(([what, count]) => `${count} ${what}`);
  return html`
    <dl class="facts">${facts.map(([key, value]) => html`<div key=${key}><dt>${key}</dt><dd>${value}</dd></div>`)}</dl>
    ${dropped.length > 0 && html`<p class="dim">The sender left out ${dropped.join(", ")}.</p>`}
    <${Pairs} title="Attributes" items=${one.attributes} />
    ${one.events.length > 0 && html`<h3>Events</h3><ol class="events">${one.events.map((event, index) => html`
      <li key=${index}><span class="dim">${offset(event.time, base)}</span> <b>${plain(event.name)}</b>
        <dl class="facts">${event.attributes.map((pair) => html`<div key=${pair.key}><dt>${plain(pair.key)}</dt><dd class="text">${lines(pair.value)}</dd></div>`)}</dl></li>`)}</ol>`}
    ${one.links.length > 0 && html`<h3>Links</h3><ul class="events">${one.links.map((link, index) => html`
      <li key=${index}><a href=${"#/traces/" + link.trace_id}>trace ${plain(link.trace_id)}</a> <span class="dim">span ${plain(link.span_id ?? "")}</span>
        <dl class="facts">${link.attributes.map((pair) => html`<div key=${pair.key}><dt>${plain(pair.key)}</dt><dd>${plain(pair.value)}</dd></div>`)}</dl></li>`)}</ul>`}
    <${Pairs} title="Resource" items=${one.resource} />
    <${Pairs} title="Scope" items=${one.scope_attributes} />`;
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"]; // four numbers each, from 1 on

const level = (number) => LEVELS[Math.floor((number - 1) / 4)] ?? "log";

function Logs({ path, at, base, id }) {
  const { data, error } = useResource(`${path}/logs` + query({ at, span_id: id }));
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<${Waiting} />`;
  if (!data.items.length) return html`<p class="dim">No log record names this span.</p>`;
  return html`
    <ol class="events">${data.items.map((one, index) => html`
      <li key=${index}><span class="dim">${offset(one.time, base)}</span> <${Badge} kind=${one.severity_number >= 17 ? "bad" : ""}>${plain(one.severity || level(one.severity_number))}<//> ${plain(one.body)}</li>`)}</ol>
    ${data.more && html`<p class="dim">The first ${plural(data.items.length, "record")}.</p>`}`;
}
