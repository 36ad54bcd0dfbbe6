// Parts that screens are made of.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { plain } from "./text.js";

export const Cards = ({ figures }) => html`
  <dl class="cards">
    ${figures.map(([label, value, note]) => html`
      <div key=${label} class="card" title=${note ?? ""}><dt>${label}</dt><dd>${value}</dd></div>`)}
  </dl>`;

export const Problem = ({ error }) => (error ? html`<p class="notice bad" role="alert">${plain(error.message)}</p>` : null);

export const Waiting = () => html`<p class="dim" role="status">Loading …</p>`;

export const Badge = ({ kind = "", children }) => html`<span class=${"badge " + kind}>${children}</span>`;

// Rows of a list. `columns`: {name, show, kind: "number" | "text", width}. Rows of one height; only those in sight exist. `fixed`: as wide as
// it says, and no wider than its place.
export function Grid({ label, columns, rows, onEnd, empty = "Nothing here.", height = 28, tall = 560, fixed = false }) {
  const box = useRef(null);
  const [step, setStep] = useState(0); // of eight rows: between two steps nothing is drawn again
  const first = Math.min(Math.max(0, (step - 1) * 8), Math.max(0, rows.length - 1));
  const shown = rows.slice(first, first + Math.ceil(tall / height) + 24);
  const after = (rows.length - first - shown.length) * height;
  useEffect(() => {
    if (onEnd && first + shown.length + 20 >= rows.length) onEnd();
  }, [first, rows.length]);
  if (rows.length === 0) return html`<p class="dim empty">${empty}</p>`;
  return html`
    <div class="grid" ref=${box} tabindex="0" role="region" aria-label=${label} style=${`max-height:${tall}px`}
      onScroll=${(event) => setStep(Math.floor(event.currentTarget.scrollTop / height / 8))}>
      <table aria-rowcount=${rows.length + 1} class=${fixed ? "fixed" : ""}>
        <thead><tr>${columns.map((one) => html`
          <th key=${one.name} scope="col" class=${one.kind ?? ""} style=${one.width ? `width:${one.width}` : ""}>
            ${one.label ?? plain(one.name)}</th>`)}</tr></thead>
        <tbody>
          ${first > 0 && html`<tr key="above" aria-hidden="true"><td colspan=${columns.length} class="gap" style=${`height:${first * height}px`}></td></tr>`}
          ${shown.map((row, index) => html`
            <tr key=${first + index} aria-rowindex=${first + index + 2} style=${`height:${height}px`}>
              ${columns.map((one) => html`<td key=${one.name} class=${one.kind ?? ""}>${one.show(row)}</td>`)}
            </tr>`)}
          ${after > 0 && html`<tr key="below" aria-hidden="true"><td colspan=${columns.length} class="gap" style=${`height:${after}px`}></td></tr>`}
        </tbody>
      </table>
    </div>`;
}

export function Dialog({ title, onClose, wide = false, children }) {
  const box = useRef(null);
  useLayoutEffect(() => { box.current.showModal(); }, []);
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-label=${title} onClose=${onClose}
      onClick=${(event) => event.target === box.current && box.current.close()}>
      <div class="dialog"><h2>${title}</h2>${children}</div>
    </dialog>`;
}

// Asks before something is done. With `typed`, the name must be written first.
export function Confirm({ title, text, verb, typed, act, onClose }) {
  const [written, write] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const ready = !busy && (typed === undefined || written === typed);
  const run = async (event) => {
    event.preventDefault();
    if (!ready) return;
    setBusy(true);
    setError(null);
    try {
      await act();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form onSubmit=${run}>
        <p>${text}</p>
        ${typed !== undefined && html`
          <label>Type <code>${typed}</code> to go on
            <input autofocus autocomplete="off" spellcheck=${false} value=${written} onInput=${(e) => write(e.currentTarget.value)} /></label>`}
        <${Problem} error=${error} />
        <p class="buttons">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button class="main" type="submit" disabled=${!ready}>${busy ? "Working …" : verb}</button>
        </p>
      </form>
    <//>`;
}

export function Copy({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="small" onClick=${copy} aria-live="polite">${done ? "Copied" : "Copy"}</button>`;
}

// Bars of equal width, such as versions by the minute.
export function Bars({ values, label }) {
  const most = Math.max(1, ...values);
  const path = values.map((one, index) => (one ? `M${index * 10 + 1} 40V${40 - Math.max(2, (one / most) * 38)}h8V40z` : "")).join("");
  return html`
    <svg class="bars" viewBox=${`0 0 ${values.length * 10} 41`} preserveAspectRatio="none" role="img" aria-label=${label}>
      <path class="axis" d=${`M0 40.5H${values.length * 10}`} /><path class="fill" d=${path} />
    </svg>`;
}
