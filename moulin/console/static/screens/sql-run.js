// A statement while it runs, its rows as they are fetched, and what was run before. It goes on when one looks elsewhere.

import { signal } from "../vendor/preact.js";
import { change, get } from "../api.js";

const PAGE = 500;
const KEY = "moulin.sql.history";
const KEPT = 100;

export const text = signal("");
export const current = signal(null); // {id, state, engine, seconds, error, result, ...}
export const past = signal(read());

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.text === "string").slice(0, KEPT) : [];
  } catch {
    return [];
  }
}

addEventListener("storage", (event) => { if (event.key === KEY || event.key === null) past.value = read(); }); // another tab

function remember(entry) {
  const others = read().filter((one) => one.text !== entry.text || one.engine !== entry.engine);
  past.value = [entry, ...others].slice(0, KEPT);
  try {
    localStorage.setItem(KEY, JSON.stringify(past.value));
  } catch {}
}

// What was written and not run is not lost when something else takes its place.
export function keepDraft() {
  const draft = text.value;
  if (draft.trim() && !past.value.some((one) => one.text === draft)) remember({ text: draft, engine: "", at: Date.now(), state: "not run" });
}

export function forgetPast() {
  past.value = [];
  try {
    localStorage.removeItem(KEY);
  } catch {}
}

// The rows of a statement: pages are fetched when they are wanted.
export class Result {
  constructor(id, columns, total) {
    Object.assign(this, { id, columns, total, pages: new Map(), loaded: signal(0), error: signal(null) });
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  first(count) {
    return (this.pages.get(0) ?? []).slice(0, count);
  }

  want(first, last) {
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.min(last, this.total); page += 1) this.fetch(page);
  }

  fetch(page) {
    const before = this.pages.get(page);
    if (before !== undefined) return before instanceof Promise ? before : Promise.resolve();
    const asked = get(`/sql/${this.id}/rows?from=${page * PAGE}&limit=${PAGE}`).then(
      (found) => { this.pages.set(page, found.rows); this.loaded.value += 1; },
      (error) => { this.pages.delete(page); this.error.value = error; });
    this.pages.set(page, Object.assign(asked, { slice: () => [] }));
    return asked;
  }

  async all() {
    const wanted = [];
    for (let page = 0; page * PAGE < this.total; page += 1) wanted.push(this.fetch(page));
    await Promise.all(wanted);
    return Array.from({ length: this.total }, (_, index) => this.row(index) ?? []);
  }
}

const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
export const isOver = (run) => ["done", "failed", "cancelled"].includes(run.state);

// Start a statement, and follow it until it has ended. The one before is given up.
export async function run(asked) {
  const mine = { ...asked, state: "waiting", started: Date.now(), seconds: null, progress: null, error: null, result: null };
  const before = current.value;
  let shown = mine;
  const put = (changed) => {
    const live = current.value === shown;
    shown = { ...shown, ...changed };
    if (live) current.value = shown;
    return live;
  };
  current.value = shown;
  try {
    if (before?.id) change("DELETE", "/sql/" + before.id).catch(() => {});
    let found = await change("POST", "/sql", asked);
    let pause = 40;
    for (;;) {
      const { columns, rows, ...rest } = found;
      if (!isOver(found)) {
        if (!put(rest)) {
          change("DELETE", "/sql/" + found.id).catch(() => {});
          return;
        }
        await sleep(pause);
        pause = Math.min(500, pause * 1.5);
        found = await ask(found.id);
        continue;
      }
      const result = found.state === "done" ? new Result(found.id, columns, rows) : null;
      if (result && rows) await result.fetch(0);
      put({ ...rest, result });
      remember({ text: asked.text, engine: found.engine, at: mine.started, state: found.state, rows: found.state === "done" ? rows : null, seconds: found.seconds });
      return;
    }
  } catch (error) {
    put({ state: "failed", error: { type: error.type, message: error.message, line: null, column: null } });
  }
}

// A server that cannot be reached for a moment still runs the statement.
async function ask(id) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await get("/sql/" + id);
    } catch (error) {
      if (error.status !== 0 || tries > 20) throw error;
      await sleep(500);
    }
  }
}

export async function cancel() {
  const { id } = current.value ?? {};
  if (!id) return;
  current.value = { ...current.value, stopping: true };
  await change("DELETE", "/sql/" + id).catch(() => {});
}
