// One record: all its columns, what happened around it, and the way to its trace.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get, query } from "../api.js";
import { Copy, Dialog, Problem, Waiting } from "../parts.js";
import { cell, instant, lines, plain } from "../text.js";

export const Level = ({ level }) => html`<span class=${"level level-" + level}>${level}</span>`;

// A value as a term of the search.
export function term(field, value) {
  if (value === null) return `-${field}:*`;
  return `${field}:"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

function useOnce(path) {
  const [found, set] = useState({ data: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    set({ data: null, error: null });
    get(path, stop.signal).then((data) => set({ data, error: null }), (error) => stop.signal.aborted || set({ data: null, error }));
    return () => stop.abort();
  }, [path]);
  return found;
}

export function RecordDialog({ record, table, onClose, onTerm }) {
  const [shown, show] = useState(record);
  const { data, error } = useOnce("/logs/records/" + encodeURIComponent(shown.id) + query({ table }));
  const [same, setSame] = useState(false);
  const around = useOnce("/logs/context" + query({ id: shown.id, table, before: 8, after: 8, q: same && shown.service !== null ? term("service", shown.service) : "" }));
  const pairs = data ? Object.entries(data.fields).filter(([name]) => !["body", "attributes", "resource", "scope_attributes"].includes(name)) : [];
  const maps = data ? ["attributes", "resource", "scope_attributes"].filter((name) => Object.keys(data.fields[name] ?? {}).length) : [];
  return html`
    <${Dialog} title=${"Record of " + instant(shown.time, 9)} onClose=${onClose} wide>
      <p><${Level} level=${shown.level} /> ${shown.service !== null && html`<b>${plain(shown.service)}</b>`}</p>
      <${Problem} error=${error} />
      ${!data && !error && html`<${Waiting} />`}
      ${data && html`
        <pre class="body" tabindex="0" aria-label="Body">${lines(data.fields.body ?? "")}</pre>
        <p class="buttons">
          ${shown.trace_id && html`<a class="button" href=${`#/traces/${encodeURIComponent(shown.trace_id)}/${shown.time}`}>Open its trace</a>`}
          <${Copy} text=${data.fields.body ?? ""} />
        </p>
        ${maps.map((name) => html`<h3 key=${name}>${name.replace("_", " ")}</h3>
          <dl class="facts">${Object.entries(data.fields[name]).map(([key, value]) => html`
            <div key=${key}><dt>${plain(key)}</dt><dd>${cell(value)}
              ${onTerm && name !== "scope_attributes" && typeof value === "string" && html` <button class="small" aria-label=${`Search for ${plain(key)} as here`}
                onClick=${() => onTerm(term((name === "resource" ? "resource." : "") + key, value), key)}>Search</button>`}</dd></div>`)}</dl>`)}
        <h3>columns</h3>
        <dl class="facts">${pairs.map(([key, value]) => html`<div key=${key}><dt>${plain(key)}</dt><dd>${cell(value)}</dd></div>`)}</dl>`}
      <div class="bar"><h3>what happened around it</h3>
        <label class="inline"><input type="checkbox" checked=${same} disabled=${shown.service === null} onChange=${(e) => setSame(e.currentTarget.checked)} /> of the same service</label></div>
      <${Problem} error=${around.error} />
      ${around.data && html`<ol class="context">
        ${[...around.data.after, shown, ...around.data.before].map((one) => html`
          <li key=${one.id} aria-current=${one.id === shown.id ? "true" : null}>
            <button class="plain" onClick=${() => show(one)}>${instant(one.time).slice(11)}</button>${" "}
            <${Level} level=${one.level} /> <span class="dim">${plain(one.service ?? "")}</span> <span class="mono">${plain(one.body ?? "")}</span></li>`)}
      </ol>`}
    <//>`;
}
