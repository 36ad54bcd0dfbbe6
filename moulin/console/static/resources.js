// What a screen asks the server for, asked again when something changed.

import { useCallback, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, query } from "./api.js";
import { tick } from "./live.js";

const EMPTY = { data: null, error: null };

// One answer. `path` null asks for nothing; `every` asks again after so many seconds, whatever happened. A question that
// nobody waits for any more is taken back, and none is asked again before its answer is here.
export function useResource(path, every = 0) {
  const [found, set] = useState({ path, ...EMPTY });
  const [turn, setTurn] = useState(0);
  const asking = useRef(null);
  const changed = tick.value;
  useEffect(() => {
    if (path === null) return undefined;
    const mine = { path, stop: new AbortController(), busy: false, late: false };
    asking.current = mine;
    return () => {
      asking.current = null;
      mine.stop.abort();
    };
  }, [path]);
  useEffect(() => {
    if (asking.current) ask(asking.current, set, asking);
  }, [path, changed, turn]);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => document.hidden || setTurn((old) => old + 1), every * 1000);
    return () => clearInterval(timer);
  }, [every]);
  const again = useCallback(() => setTurn((old) => old + 1), []);
  return { ...(found.path === path ? found : EMPTY), again };
}

async function ask(mine, set, asking) {
  const { path } = mine;
  if (mine.busy) {
    mine.late = true;
    return;
  }
  mine.busy = true;
  do {
    mine.late = false;
    let next;
    try {
      const data = await get(path, mine.stop.signal);
      next = (old) => (old.path === path && old.data === data && !old.error ? old : { path, data, error: null });
    } catch (error) {
      next = (old) => ({ path, data: old.path === path ? old.data : null, error });
    }
    if (asking.current !== mine) return;
    set(next);
  } while (mine.late);
  mine.busy = false;
}

// A list in pages. `more` loads the next one; a change loads the first ones again.
export function usePages(path, values = {}, limit = 200) {
  const key = path + query({ ...values, limit });
  const [found, set] = useState({ key, items: [], next: null, error: null, loaded: false });
  const [turn, setTurn] = useState(0);
  const busy = useRef(null);
  const changed = tick.value;
  const join = (cursor) => key + (cursor ? `&cursor=${encodeURIComponent(cursor)}` : "");
  const count = useRef(0);
  count.current = found.key === key ? found.items.length : 0;
  useEffect(() => {
    const mine = {};
    busy.current = mine;
    (async () => {
      try {
        let items = [];
        let next = null;
        const wanted = Math.min(count.current, 3 * limit);
        do {
          const page = await get(join(next));
          items = items.concat(page.items);
          next = page.next_cursor;
        } while (next && items.length < wanted);
        if (busy.current !== mine) return;
        busy.current = null;
        set((old) => (old.key === key && old.items.length > items.length && next
          ? { ...old, error: null } : { key, items, next, error: null, loaded: true }));
      } catch (error) {
        if (busy.current !== mine) return;
        busy.current = null;
        set((old) => (old.key === key ? { ...old, error, loaded: true } : { key, items: [], next: null, error, loaded: true }));
      }
    })();
    return () => { if (busy.current === mine) busy.current = null; };
  }, [key, changed, turn]);
  const more = async () => {
    if (busy.current || !found.next || found.key !== key) return;
    const mine = {};
    busy.current = mine;
    try {
      const page = await get(join(found.next));
      if (busy.current !== mine) return;
      set((old) => ({ ...old, items: old.items.concat(page.items), next: page.next_cursor }));
    } catch (error) {
      set((old) => ({ ...old, error }));
    } finally {
      if (busy.current === mine) busy.current = null;
    }
  };
  const mine = found.key === key;
  return {
    items: mine ? found.items : [], next: mine ? found.next : null, error: mine ? found.error : null,
    loaded: mine && found.loaded, more, again: () => setTurn((old) => old + 1),
  };
}
