// Ctrl-K: go to a table, a column, a version, a trace or a screen by typing a part of its name.

import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { get, query } from "./api.js";
import { plain } from "./text.js";
import { toggleTheme } from "./theme.js";

export const paletteOpen = signal(false);

const COMMANDS = [
  ["Lake", "#/"], ["SQL", "#/sql"], ["Activity", "#/activity"], ["Branches", "#/branches"], ["Logs", "#/logs"], ["Traces", "#/traces"], ["Service map", "#/traces/map"], ["Metrics", "#/metrics"], ["Streams", "#/streams"], ["Tasks", "#/tasks"],
  ["Trash", "#/trash"], ["Access", "#/access"], ["Switch between light and dark", toggleTheme],
].map(([name, go]) => ({ kind: typeof go === "string" ? "screen" : "command", name, go }));

function target(hit) {
  if (hit.kind === "table" || hit.kind === "column") return "#/table/" + hit.id;
  return hit.kind === "branch" ? "#/branches" : "#/activity/" + hit.name;
}

export function Palette() {
  return paletteOpen.value ? html`<${Box} />` : null;
}

function Box() {
  const box = useRef(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState({ of: "", hits: [] });
  const [chosen, choose] = useState(0);
  useLayoutEffect(() => { box.current.showModal(); }, []); // before the next key, which is typed into it
  useEffect(() => {
    let live = true;
    choose(0);
    if (!text.trim()) {
      setFound({ of: "", hits: [] });
      return undefined;
    }
    const timer = setTimeout(() => get("/search" + query({ q: text.trim() })).then(
      (page) => live && setFound({ of: text, hits: page.items.map((one) => ({ ...one, go: target(one) })) }), () => live && setFound({ of: text, hits: [] })), 80);
    return () => { live = false; clearTimeout(timer); };
  }, [text]);
  const needle = text.trim().toLowerCase();
  const fitting = COMMANDS.filter((one) => one.name.toLowerCase().includes(needle));
  const traces = /^[0-9a-f]{32}$/i.test(text.trim()) ? [{ kind: "trace", name: text.trim(), go: "#/traces/" + text.trim().toLowerCase() }] : [];
  const hits = found.of === text ? found.hits : found.hits.filter((one) => one.name.toLowerCase().includes(needle)); // of what was typed before
  const shown = text.trim() ? [...traces, ...hits, ...fitting].slice(0, 50) : fitting;
  const go = (one) => {
    box.current.close();
    if (typeof one.go === "string") location.hash = one.go;
    else one.go();
  };
  const onKeyDown = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose((chosen + step + shown.length) % Math.max(1, shown.length));
    } else if (event.key === "Enter" && shown[chosen]) {
      event.preventDefault();
      go(shown[chosen]);
    }
  };
  useEffect(() => { document.getElementById("hit-" + chosen)?.scrollIntoView({ block: "nearest" }); }, [chosen]);
  return html`
    <dialog ref=${box} class="palette" aria-label="Find" onClose=${() => { paletteOpen.value = false; }}
      onClick=${(event) => event.target === box.current && box.current.close()}>
      <input autofocus role="combobox" aria-expanded="true" aria-controls="hits" aria-label="Find a table, a column, a version"
        aria-activedescendant=${shown.length ? "hit-" + chosen : null} placeholder="Find a table, a column, a version …"
        autocomplete="off" spellcheck=${false} value=${text} onInput=${(e) => setText(e.currentTarget.value)} onKeyDown=${onKeyDown} />
      <ul id="hits" role="listbox" aria-label="Found">
        ${shown.map((one, index) => html`
          <li key=${one.kind + (one.id ?? "") + one.name} id=${"hit-" + index} role="option" aria-selected=${index === chosen}
            onClick=${() => go(one)} onMouseMove=${() => choose(index)}>
            <span class="kind">${one.kind}</span> ${one.table ? html`<span class="dim">${plain(one.table)}.</span>` : null}${plain(one.name)}
          </li>`)}
      </ul>
      ${text.trim() && shown.length === 0 && html`<p class="dim none" role="status">Nothing has that in its name.</p>`}
    </dialog>`;
}
