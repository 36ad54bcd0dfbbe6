// The rows of a statement. Only those in sight exist as elements, and the same ones are used again as one scrolls.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Dialog } from "../parts.js";
import { cell, lines, plain } from "../text.js";

const ROW = 26;
const LETTER = 8.3;
const AHEAD = 6;

export const isNumber = (type) => /^(u?int|float|double|half|decimal)/.test(type);

function widths(result) {
  const rows = result.first(200);
  return result.columns.map((column, index) => {
    let most = Math.max(column.name.length + 1, Math.min(column.type.length, 26));
    for (const row of rows) most = Math.max(most, Math.min(44, cell(row[index]).length));
    return Math.round(Math.min(360, Math.max(64, most * LETTER + 26)));
  });
}

const make = (parent, kind, role) => {
  const made = document.createElement("div");
  made.className = kind;
  made.setAttribute("role", role);
  parent?.append(made);
  return made;
};

// Draws into a box that scrolls; outside of Preact, which would compare every cell at every step.
class Sheet {
  constructor(box, result, onChosen) {
    Object.assign(this, { box, result, onChosen, chosen: -1, pool: [], first: -1, last: -1, from: -1, to: -1 });
    this.widths = widths(result);
    this.lefts = this.widths.reduce((all, one) => [...all, all.at(-1) + one], [0]);
    const width = this.lefts.at(-1);
    box.replaceChildren();
    const head = make(box, "head", "rowgroup");
    this.head = make(head, "row", "row");
    this.head.setAttribute("aria-rowindex", "1");
    this.head.style.width = `${width}px`;
    this.body = make(box, "rows", "rowgroup");
    this.body.style.cssText = `height:${result.total * ROW}px;width:${width}px`;
  }

  draw() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.box;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - AHEAD);
    const last = Math.min(this.result.total, Math.ceil((scrollTop + clientHeight) / ROW) + AHEAD);
    let from = this.lefts.findIndex((left, index) => this.lefts[index + 1] > scrollLeft - 400);
    if (from < 0) from = 0;
    let to = this.lefts.findIndex((left) => left > scrollLeft + clientWidth + 400);
    if (to < 0) to = this.widths.length;
    to = Math.min(to, this.widths.length);
    if (from !== this.from || to !== this.to) this.drawHead(from, to);
    const count = last - first;
    while (this.pool.length < count) this.pool.push(this.makeRow());
    for (let index = first; index < last; index += 1) this.fill(this.pool[index % this.pool.length], index);
    for (const row of this.pool) if (row.index < first || row.index >= last) this.hide(row);
    this.result.want(first, last);
  }

  drawHead(from, to) {
    this.from = from;
    this.to = to;
    this.head.replaceChildren();
    for (let index = from; index < to; index += 1) {
      const { name, type } = this.result.columns[index];
      const made = make(this.head, isNumber(type) ? "cell number" : "cell", "columnheader");
      made.setAttribute("aria-colindex", String(index + 1));
      made.style.cssText = `left:${this.lefts[index]}px;width:${this.widths[index]}px`;
      const kind = document.createElement("small");
      kind.textContent = plain(type);
      made.append(plain(name), kind);
      made.title = `${plain(name)}: ${plain(type)}`;
    }
    for (const row of this.pool) row.element.remove();
    this.pool = [];
  }

  makeRow() {
    const element = make(this.body, "row", "row");
    const cells = [];
    for (let index = this.from; index < this.to; index += 1) {
      const made = make(element, isNumber(this.result.columns[index].type) ? "cell number" : "cell", "cell");
      made.setAttribute("aria-colindex", String(index + 1));
      made.style.cssText = `left:${this.lefts[index]}px;width:${this.widths[index]}px`;
      cells.push(made);
    }
    const row = { element, cells, index: -1, values: null };
    element.addEventListener("click", () => this.onChosen(row.index, false));
    element.addEventListener("dblclick", () => this.onChosen(row.index, true));
    return row;
  }

  fill(row, index) {
    const values = this.result.row(index);
    if (row.index !== index) {
      row.element.style.transform = `translateY(${index * ROW}px)`;
      row.element.setAttribute("aria-rowindex", String(index + 2));
      row.element.classList.toggle("odd", index % 2 === 1);
      row.element.hidden = false;
    } else if (row.values === values && row.chosen === (index === this.chosen)) return;
    row.chosen = index === this.chosen;
    row.element.classList.toggle("chosen", row.chosen);
    if (row.chosen) row.element.setAttribute("aria-current", "true");
    else row.element.removeAttribute("aria-current");
    if (row.index !== index || row.values !== values) {
      row.cells.forEach((made, at) => {
        const value = values ? values[this.from + at] : undefined;
        made.textContent = value === undefined ? "…" : cell(value);
        made.classList.toggle("null", value === null || value === undefined);
      });
    }
    row.index = index;
    row.values = values;
  }

  hide(row) {
    if (row.index < 0) return;
    row.index = -1;
    row.element.hidden = true;
  }
}

export function ResultGrid({ result }) {
  const box = useRef(null);
  const sheet = useRef(null);
  const [shown, show] = useState(null); // the row that is shown whole
  useEffect(() => {
    const mine = new Sheet(box.current, result, (index, open) => {
      mine.chosen = index;
      mine.draw();
      if (open) show(index);
    });
    sheet.current = mine;
    let waits = false;
    const draw = () => {
      if (waits) return;
      waits = true;
      requestAnimationFrame(() => { waits = false; mine.draw(); });
    };
    box.current.addEventListener("scroll", draw, { passive: true });
    const size = new ResizeObserver(draw);
    size.observe(box.current);
    const stop = result.loaded.subscribe(draw);
    mine.draw();
    return () => { stop(); size.disconnect(); box.current?.removeEventListener("scroll", draw); };
  }, [result]);
  const onKeyDown = (event) => {
    const page = Math.floor((box.current.clientHeight - 40) / ROW);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    const mine = sheet.current;
    if (event.key === "Enter" && mine.chosen >= 0) {
      event.preventDefault();
      show(mine.chosen);
    } else if (step !== undefined && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      mine.chosen = Math.max(0, Math.min(result.total - 1, mine.chosen < 0 && step > 0 && step < 2 ? 0 : mine.chosen + step));
      const top = mine.chosen * ROW;
      const room = box.current.clientHeight - 46 - ROW;
      if (top < box.current.scrollTop) box.current.scrollTop = top;
      else if (top > box.current.scrollTop + room) box.current.scrollTop = top - room;
      mine.draw();
    }
  };
  return html`
    <div class="sheet" ref=${box} tabindex="0" role="table" aria-label="Result" aria-rowcount=${result.total + 1}
      aria-colcount=${result.columns.length} onKeyDown=${onKeyDown}></div>
    ${shown !== null && html`<${WholeRow} result=${result} index=${shown} onClose=${() => { show(null); box.current?.focus(); }} />`}`;
}

function WholeRow({ result, index, onClose }) {
  const values = result.row(index) ?? [];
  return html`<${Dialog} title=${`Row ${index + 1}`} onClose=${onClose} wide=${true}>
    <dl class="facts whole" tabindex="0">${result.columns.map((column, at) => html`<div key=${at}><dt>${plain(column.name)} <span class="dim">${plain(column.type)}</span></dt>
      <dd class=${values[at] === null ? "dim" : ""}>${typeof values[at] === "string" ? lines(values[at]) : cell(values[at])}</dd></div>`)}</dl>
    <p class="buttons"><button onClick=${onClose}>Close</button></p>
  <//>`;
}
