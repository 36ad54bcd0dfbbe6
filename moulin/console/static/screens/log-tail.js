// Records as they come. A stream that breaks is opened again where it ended, so that nothing is lost and nothing comes twice.

import { useEffect, useRef, useState } from "../vendor/preact.js";
import { forget, query } from "../api.js";

const MOST = 2000;
const AGAIN = 2000;
const NOTHING = { items: [], held: 0, skipped: 0, lost: false, problem: null, opened: false };

export function useTail(values, isOn, isPaused) {
  const [found, set] = useState(NOTHING);
  const held = useRef([]);
  const paused = useRef(isPaused);
  const key = query(values);
  const show = () => {
    const fresh = held.current;
    held.current = [];
    set((old) => ({ ...old, items: [...fresh, ...old.items].slice(0, MOST), held: 0 }));
  };
  useEffect(() => {
    paused.current = isPaused;
    if (!isPaused && held.current.length) show();
  }, [isPaused]);
  useEffect(() => {
    if (!isOn) return undefined;
    held.current = [];
    set(NOTHING);
    let last = null;
    let source = null;
    let timer = 0;
    const open = () => {
      source = new EventSource("/api/v1/logs/tail" + query({ ...values, since: last }));
      source.onopen = () => set((old) => ({ ...old, problem: null, opened: true }));
      source.addEventListener("beat", (event) => { last = event.lastEventId; });
      source.addEventListener("records", (event) => {
        last = event.lastEventId;
        const { items, left_out, lost } = JSON.parse(event.data);
        held.current = [...items, ...held.current].slice(0, MOST);
        set((old) => ({ ...old, held: held.current.length, skipped: old.skipped + left_out, lost: old.lost || lost }));
        if (!paused.current) show();
      });
      source.addEventListener("end", (event) => {
        const { reason } = JSON.parse(event.data);
        if (reason === "signed-out") forget();
        else if (reason !== "stopping") {
          source.close();
          set((old) => ({ ...old, problem: new Error(reason) }));
        }
      });
      source.onerror = () => {
        set((old) => ({ ...old, problem: new Error("The stream broke; it is opened again by itself.") }));
        if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN);
      };
    };
    open();
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, [key, isOn]);
  return found;
}
