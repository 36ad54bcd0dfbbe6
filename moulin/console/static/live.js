// What happens, as it happens: the stream of events, and asking every few seconds where a proxy holds streams back.

import { batch, signal } from "./vendor/preact.js";
import { forget, get, me } from "./api.js";

export const state = signal({ version: null, merge_tasks: 0, quarantined: 0 });
export const tick = signal(0); // rises when something changed, at most once a second: what is shown is asked for again
export const staleSince = signal(null); // when the server was last heard of; null while it is
export const isPolling = signal(false);

const LATE = 4000;
const POLL = 3000;
const BROKEN = 1500; // after a connection broke
let source = null;
let heard = 0;
let broke = 0;
let asked = 0;
let due = false;
let timer = 0;

function hear(found) {
  heard = Date.now();
  broke = 0;
  batch(() => {
    staleSince.value = null;
    if (found && (found.version !== state.value.version || found.merge_tasks !== state.value.merge_tasks
      || found.quarantined !== state.value.quarantined)) {
      state.value = { version: found.version, merge_tasks: found.merge_tasks, quarantined: found.quarantined };
      due = true;
    }
  });
}

function open() {
  source?.close();
  source = new EventSource("/api/v1/events");
  source.addEventListener("state", (event) => { isPolling.value = false; hear(JSON.parse(event.data)); });
  source.addEventListener("beat", () => { isPolling.value = false; hear(null); });
  source.addEventListener("error", () => { broke ||= Date.now(); });
  source.addEventListener("end", (event) => {
    if (JSON.parse(event.data).reason === "signed-out") forget();
  });
}

async function poll() {
  asked = Date.now();
  try {
    const found = await get("/lake");
    isPolling.value = true;
    hear(found);
  } catch {}
}

function watch() {
  if (me.value === null) return stop();
  const now = Date.now();
  if (due) {
    due = false;
    tick.value++;
  }
  if (now - heard < (broke ? Math.min(LATE, broke - heard + BROKEN) : LATE)) return;
  if (staleSince.value === null && !isPolling.value) staleSince.value = heard;
  if (isPolling.value && now - heard > 2 * LATE) {
    isPolling.value = false;
    staleSince.value = heard;
  }
  if (now - asked < POLL) return;
  if (source === null || source.readyState === EventSource.CLOSED) open();
  poll();
}

export function start() {
  if (timer) return;
  heard = Date.now();
  open();
  timer = setInterval(watch, 1000);
}

export function stop() {
  clearInterval(timer);
  timer = 0;
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && timer) watch();
});
