// Spans along time, one below the other. Only rows in sight exist; all of them together are a picture above.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { number, plain, plural, took } from "../text.js";

const ROW = 24;
const TALL = 600;
const BATCH = 8; // rows: between two multiples nothing is drawn again
const MAP_TALL = 60;
const DEEPEST = 24; // levels that are indented
// None is red, which failed spans have.
const COLORS = ["#4f7fd4", "#8f9426", "#a463bb", "#0d9a94", "#b9772b", "#6d6fd6", "#4c9a4f", "#b65f97", "#3d91b8", "#8a7a5c"];
const given = new Map(); // service -> colour, for as long as the page is open

export function colorOf(service) {
  if (!given.has(service)) {
    let hash = 0;
    for (const one of service) hash = (hash * 31 + one.codePointAt(0)) >>> 0;
    const taken = new Set(given.values());
    const turned = COLORS.map((_, index) => COLORS[(hash + index) % COLORS.length]);
    given.set(service, turned.find((one) => !taken.has(one)) ?? turned[0]);
  }
  return given.get(service);
}

function inSight(spans, collapsed, criticalOnly) {
  const kept = criticalOnly ? new Set() : null;
  if (kept) for (const one of spans) if (one.critical.length) for (let at = one.index; at >= 0 && !kept.has(at); at = spans[at].parent) kept.add(at);
  const shown = [];
  let hiddenBelow = Infinity;
  for (const one of spans) {
    if (one.depth > hiddenBelow) continue;
    hiddenBelow = collapsed.has(one.index) ? one.depth : Infinity;
    if (!kept || kept.has(one.index)) shown.push(one);
  }
  return shown;
}

function fits(span, text) {
  return span.name.toLowerCase().includes(text) || span.service.toLowerCase().includes(text) || (span.id ?? "").startsWith(text);
}

export function Waterfall({ spans, length, chosen, choose }) {
  const box = useRef(null);
  const [collapsed, setCollapsed] = useState(new Set());
  const [criticalOnly, setCriticalOnly] = useState(false);
  const [text, setText] = useState("");
  const [active, setActive] = useState(0); // index of a span
  const [step, setStep] = useState(0);
  const whole = [0, Math.max(1, length)];
  const [zoom, setZoom] = useState(null);
  const [from, to] = zoom ?? whole;
  const shown = useMemo(() => inSight(spans, collapsed, criticalOnly), [spans, collapsed, criticalOnly]);
  const positions = useMemo(() => new Map(shown.map((one, at) => [one.index, at])), [shown]);
  const wanted = text.trim().toLowerCase();
  const matches = useMemo(() => (wanted ? spans.filter((one) => fits(one, wanted)) : []), [spans, wanted]);
  const first = Math.max(0, Math.min((step - 1) * BATCH, shown.length - 1));
  const drawn = shown.slice(first, first + Math.ceil(TALL / ROW) + 3 * BATCH);

  const toggle = (index, closed) => setCollapsed((old) => {
    const next = new Set(old);
    if (closed) next.add(index);
    else next.delete(index);
    return next;
  });
  const reveal = (index) => {
    setCollapsed((old) => {
      const next = new Set(old);
      for (let at = spans[index].parent; at >= 0; at = spans[at].parent) next.delete(at);
      return next.size === old.size ? old : next;
    });
    setActive(index);
  };
  useEffect(() => {
    const at = positions.get(active);
    if (at === undefined || !box.current) return;
    const { scrollTop, clientHeight } = box.current;
    if (at * ROW < scrollTop) box.current.scrollTop = at * ROW;
    else if ((at + 1) * ROW > scrollTop + clientHeight) box.current.scrollTop = (at + 1) * ROW - clientHeight;
  }, [active, positions]);

  useEffect(() => { // the lanes above are as wide as those beside the scroll bar
    box.current.parentElement.style.setProperty("--bar", `${box.current.offsetWidth - box.current.clientWidth - 2}px`);
  }, []);

  const onKeyDown = (event) => {
    const at = positions.get(active) ?? 0;
    const span = shown[at];
    const open = span && span.parents && !collapsed.has(span.index);
    const page = Math.floor(TALL / ROW) - 1;
    const go = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 }[event.key];
    if (go !== undefined) setActive(shown[Math.max(0, Math.min(shown.length - 1, go))].index);
    else if (event.key === "Enter" || event.key === " ") choose(active);
    else if (event.key === "Escape") choose(null);
    else if (event.key === "ArrowLeft" && open) toggle(span.index, true);
    else if (event.key === "ArrowLeft" && span && span.parent >= 0) setActive(span.parent);
    else if (event.key === "ArrowRight" && span?.parents && !open) toggle(span.index, false);
    else if (event.key === "ArrowRight" && open && shown[at + 1]) setActive(shown[at + 1].index);
    else return;
    event.preventDefault();
  };
  const next = (event) => {
    event.preventDefault();
    if (!matches.length) return;
    setCriticalOnly(false);
    reveal((matches.find((one) => one.index > active) ?? matches[0]).index);
  };
  const zoomTo = () => {
    const one = spans[active];
    const margin = Math.max(1, one.length * 0.05);
    setZoom([Math.max(0, one.start - margin), Math.min(whole[1], one.start + Math.max(1, one.length) + margin)]);
  };
  return html`
    <section class="waterfall" aria-label="Waterfall">
      <div class="tools">
        <form onSubmit=${next}><label><span class="hidden">Find a span</span>
          <input type="search" placeholder="Find a span" value=${text} onInput=${(e) => setText(e.currentTarget.value)} /></label>
          <button class="small" disabled=${!matches.length}>Next</button>
          <span class="dim" aria-live="polite">${wanted ? plural(matches.length, "match", "matches") : ""}</span></form>
        <label class="check"><input type="checkbox" checked=${criticalOnly} onChange=${(e) => setCriticalOnly(e.currentTarget.checked)} /> Critical path only</label>
        <span class="space"></span>
        <button class="small" onClick=${() => setCollapsed(new Set(spans.filter((one) => one.parents && one.depth > 0).map((one) => one.index)))}>Collapse</button>
        <button class="small" disabled=${!collapsed.size} onClick=${() => setCollapsed(new Set())}>Expand</button>
        <button class="small" onClick=${zoomTo}>Zoom to span</button>
        <button class="small" disabled=${zoom === null} onClick=${() => setZoom(null)}>Whole trace</button>
      </div>
      <${Overview} spans=${spans} whole=${whole} zoom=${zoom} setZoom=${setZoom} />
      <div class="ruler" aria-hidden="true"><span class="name">${plural(shown.length, "span")}${shown.length < spans.length ? ` of ${number(spans.length)}` : ""}</span>
        <span class="lane">${[0, 0.25, 0.5, 0.75].map((part) => html`<i key=${part} style=${`left:${part * 100}%`}>${took(from + (to - from) * part)}</i>`)}</span></div>
      <div class="spans" ref=${box} role="tree" tabindex="0" aria-label="Spans" aria-activedescendant=${positions.has(active) ? "span-" + active : null}
        style=${`max-height:${TALL}px`} onKeyDown=${onKeyDown} onScroll=${(e) => setStep(Math.floor(e.currentTarget.scrollTop / ROW / BATCH))}>
        <div role="none" style=${`height:${shown.length * ROW}px`}>
          ${drawn.map((span, index) => html`<${Row} key=${span.index} span=${span} top=${(first + index) * ROW} from=${from} to=${to} active=${span.index === active}
            chosen=${span.index === chosen} closed=${collapsed.has(span.index)} faded=${wanted && !fits(span, wanted)}
            onToggle=${() => toggle(span.index, !collapsed.has(span.index))} onChoose=${() => { setActive(span.index); choose(span.index); }} />`)}
        </div>
      </div>
      <p class="dim">The line within a bar is the critical path: what the trace waited for. Arrow keys move and fold, Enter opens a span; drag over the picture to zoom.</p>
    </section>`;
}

const place = (start, stop, from, to) => {
  const left = Math.max(0, (start - from) / (to - from)) * 100;
  return [left, Math.max(0.15, Math.min(100, ((stop - from) / (to - from)) * 100) - left)];
};

function Row({ span, top, from, to, active, chosen, closed, faded, onToggle, onChoose }) {
  const end = span.start + span.length;
  const [left, width] = place(span.start, end, from, to);
  const lies = end < from || span.start > to ? "" : left + width <= 82 ? "after" : left > 12 ? "before" : "within";
  return html`
    <div role="treeitem" id=${"span-" + span.index} class=${`row${active ? " active" : ""}${chosen ? " chosen" : ""}${faded ? " faded" : ""}`} style=${`top:${top}px`}
      aria-level=${span.depth + 1} aria-selected=${chosen} aria-expanded=${span.parents ? !closed : null} onClick=${onChoose}>
      <span class="name" style=${`padding-left:${Math.min(DEEPEST, span.depth) * 11 + 6}px`} title=${`${plain(span.service)} ${plain(span.name)}`}>
        <i class="fold" onClick=${span.parents ? (event) => { event.stopPropagation(); onToggle(); } : null}>${span.parents ? (closed ? "▸" : "▾") : ""}</i>
        <i class="dot" style=${`--of:${colorOf(span.service)}`}></i>${span.failed && html`<span class="fault"><span aria-hidden="true">✕</span><span class="hidden">failed</span></span> `}<b>${plain(span.service || "no service")}</b> ${plain(span.name || "no name")}</span>
      <span class="lane">${lies && html`
        <i class=${"span" + (span.failed ? " failed" : "")} style=${`left:${left}%;width:${width}%;--of:${colorOf(span.service)}`}></i>
        ${span.critical.filter(([a, b]) => b >= from && a <= to).map(([a, b], index) => {
          const [x, w] = place(a, b, from, to);
          return html`<i key=${index} class="critical" style=${`left:${x}%;width:${w}%`}></i>`;
        })}
        <span class=${"took " + lies} style=${lies === "after" ? `left:${left + width}%` : `right:${100 - left - (lies === "within" ? width : 0)}%`}>${took(span.length)}</span>`}</span>
    </div>`;
}

// Every span as a line along time; dragging over it zooms.
function Overview({ spans, whole, zoom, setZoom }) {
  const canvas = useRef(null);
  const [drag, setDrag] = useState(null);
  useEffect(() => {
    const draw = () => {
      const box = canvas.current;
      if (!box) return;
      const scale = devicePixelRatio || 1;
      const wide = box.clientWidth;
      box.width = wide * scale;
      box.height = MAP_TALL * scale;
      const pen = box.getContext("2d");
      pen.scale(scale, scale);
      const high = MAP_TALL / Math.max(1, spans.length);
      for (const one of spans) {
        pen.fillStyle = colorOf(one.service);
        pen.fillRect((one.start / whole[1]) * wide, one.index * high, Math.max(1, (one.length / whole[1]) * wide), Math.max(1, Math.min(6, high - 0.5)));
      }
    };
    draw();
    const watcher = new ResizeObserver(draw);
    watcher.observe(canvas.current);
    return () => watcher.disconnect();
  }, [spans, whole[1]]);
  const at = (event) => {
    const frame = canvas.current.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - frame.left) / Math.max(1, frame.width))) * whole[1];
  };
  const down = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag([at(event), at(event)]);
  };
  const up = () => {
    if (drag && Math.abs(drag[1] - drag[0]) > whole[1] / 200) setZoom([...drag].sort((a, b) => a - b));
    setDrag(null);
  };
  const range = drag ? [...drag].sort((a, b) => a - b) : zoom;
  return html`
    <div class="overview" role="img" aria-label="All spans along time" onPointerDown=${down} onPointerUp=${up} onPointerCancel=${() => setDrag(null)}
      onPointerMove=${(event) => drag && setDrag([drag[0], at(event)])}>
      <canvas ref=${canvas} height=${MAP_TALL}></canvas>
      ${range && html`<i style=${`left:0;width:${(range[0] / whole[1]) * 100}%`}></i><i style=${`left:${(range[1] / whole[1]) * 100}%;right:0`}></i>`}
    </div>`;
}
