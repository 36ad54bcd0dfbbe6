// Segments of a table as a picture: a row for each level, along event time, or along their rows where there is none.
// The lower, hatched part of a segment is what its deletion vector hides. Segments of merge tasks have a frame, and an arrow to the
// level that they go to; segments that came while one looks are framed for a moment.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { millis, moment, number, plain, plural, size, span } from "../text.js";
import { stepped } from "./axis.js";

const WIDTH = 1000;
const ROW = 64;
const LEFT = 70;
const MOST_LANES = 8;
const NEWS_SECONDS = 6;
const NONE = [];

function lay(segments, timed, targets) {
  let from = Infinity;
  let to = -Infinity;
  let along = 0;
  const items = segments.map((one) => {
    const rows = Math.max(1, Number(one.rows));
    const start = timed ? millis(one.time_min) : along;
    const end = timed ? millis(one.time_max) : along + rows;
    along += rows;
    from = Math.min(from, start);
    to = Math.max(to, end);
    return { one, start, end, gone: 1 - Number(one.live) / rows };
  });
  const scale = (WIDTH - LEFT - 10) / Math.max(1, to - from);
  const levels = new Map();
  for (const item of items.sort((a, b) => a.start - b.start)) {
    item.x = LEFT + (item.start - from) * scale;
    item.width = Math.max(2.5, (item.end - item.start) * scale - 1);
    const level = levels.get(item.one.level) ?? { lanes: [], items: [] };
    levels.set(item.one.level, level);
    let lane = level.lanes.findIndex((end) => end <= item.x);
    if (lane < 0) lane = level.lanes.length < MOST_LANES ? level.lanes.length : level.lanes.indexOf(Math.min(...level.lanes));
    level.lanes[lane] = Math.max(level.lanes[lane] ?? 0, item.x + item.width);
    item.lane = lane;
    level.items.push(item);
  }
  for (const level of targets) if (!levels.has(level)) levels.set(level, { lanes: [0], items: [] });
  return { levels: [...levels].sort(([a], [b]) => a - b), from, to };
}

const box = (x, y, width, height) => `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h-${width.toFixed(1)}z`;

// The numbers of segments that came after the version that one began to look at, for some seconds.
function useNews(segments, version) {
  const known = useRef(BigInt(version));
  const [news, setNews] = useState(NONE);
  useEffect(() => {
    const came = segments.filter((one) => BigInt(one.added_version) > known.current);
    for (const one of came) if (BigInt(one.added_version) > known.current) known.current = BigInt(one.added_version);
    if (came.length) setNews(came.map((one) => one.number));
  }, [segments]);
  useEffect(() => {
    if (!news.length) return undefined;
    const timer = setTimeout(() => setNews(NONE), NEWS_SECONDS * 1000);
    return () => clearTimeout(timer);
  }, [news]);
  return new Set(news);
}

// Of a task: frames around its segments, a frame where its output goes, and an arrow from these to that.
function drawTask(task, places, row) {
  const inputs = new Set(task.inputs);
  const mine = places.filter((place) => inputs.has(place.one.number));
  if (mine.length === 0) return null;
  const left = Math.min(...mine.map((place) => place.x));
  const right = Math.max(...mine.map((place) => place.x + place.width));
  const target = row(task.level);
  const lowest = Math.max(...mine.map((place) => place.y + place.height));
  const frames = mine.map((place) => box(place.x - 1, place.y - 1, place.width + 2, place.height + 2)).join("");
  const middle = (left + right) / 2;
  const arrow = target > lowest ? `M${middle.toFixed(1)} ${lowest + 1}V${target - 3}m-4 -5l4 5l4 -5` : "";
  return { task, frames, arrow, goal: box(left, target, Math.max(6, right - left), ROW - 14) };
}

const WHAT = { waiting: "waiting for a worker", claimed: "being compacted", lapsed: "its worker is gone", quarantined: "failed too often, in quarantine" };

function Tasks({ tasks }) {
  return html`<ul class="moving" aria-label="Compactions of this table">${tasks.map((one) => html`
    <li key=${one.id} class=${one.state}><i></i>${plural(one.segments, "segment")} → level ${one.level}, ${WHAT[one.state] ?? one.state}${one.state === "claimed" && one.worker ? ` by ${plain(one.worker)}` : ""}${one.claimed_at !== null && one.state === "claimed" ? ` for ${span(Date.now() / 1000 - millis(one.claimed_at) / 1000)}` : ""}</li>`)}</ul>`;
}

export function Levels({ segments, version, eventTime, more, tasks = NONE }) {
  const timed = eventTime !== null && segments.every((one) => one.time_min !== null);
  const targets = [...new Set(tasks.map((one) => one.level))].sort().join();
  const { levels, from, to } = useMemo(() => lay(segments, timed, targets === "" ? NONE : targets.split(",").map(Number)), [segments, timed, targets]);
  const news = useNews(segments, version);
  const [hovered, hover] = useState(null);
  if (segments.length === 0) return html`<p class="dim empty">The table has no segments yet.</p>`;
  const places = [];
  const drawn = levels.map(([level, { lanes, items }], index) => {
    const high = (ROW - 14) / lanes.length;
    let live = "";
    let gone = "";
    for (const item of items) {
      const y = index * ROW + 7 + item.lane * high;
      const height = Math.max(2, high - 1.5);
      live += box(item.x, y, item.width, height);
      if (item.gone > 0) gone += box(item.x, y + height * (1 - Math.max(0.08, item.gone)), item.width, height * Math.max(0.08, item.gone));
      places.push({ ...item, y, height });
    }
    return { level, live, gone, count: items.length };
  });
  const moving = tasks.map((one) => drawTask(one, places, (level) => levels.findIndex(([key]) => key === level) * ROW + 7)).filter(Boolean);
  const came = places.filter((place) => news.has(place.one.number)).map((place) => box(place.x - 1, place.y - 1, place.width + 2, place.height + 2)).join("");
  const tall = levels.length * ROW + 22;
  const find = (event) => {
    const frame = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const y = ((event.clientY - frame.top) / frame.height) * tall;
    hover(places.find((p) => x >= p.x - 1 && x <= p.x + p.width + 1 && y >= p.y && y <= p.y + p.height)?.one ?? null);
  };
  const label = levels.map(([level, { items }]) => `level ${level}: ${plural(items.length, "segment")}`).join(", ")
    + (tasks.length ? `; ${plural(tasks.length, "compaction")} planned or running` : "");
  const ticks = timed ? [0, 0.25, 0.5, 0.75, 1].map((part) => [part, moment(String(BigInt(Math.round(from + (to - from) * part)) * 1000000n)).slice(5, 19)]) : [];
  const hoveredAt = hovered === null ? -1 : places.findIndex((place) => place.one.number === hovered.number);
  const at = places[hoveredAt];
  const say = at === undefined ? "" : `segment ${number(hovered.number)} · level ${hovered.level} · ${plural(hovered.live, "row")} of ${number(hovered.rows)} · ${size(hovered.bytes)}`
    + (hovered.partition ? ` · ${plain(hovered.partition)}` : "") + ` · since version ${number(hovered.added_version)}`;
  return html`
    <svg class="levels" viewBox=${`0 0 ${WIDTH} ${tall}`} aria-label=${label}
      ...${stepped(places, hoveredAt, (place) => hover(place.one), say)} onMouseMove=${find} onMouseLeave=${() => hover(null)}>
      <defs><pattern id="hatch" width="5" height="5" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">
        <rect class="hatch-back" width="5" height="5" /><path class="hatch-line" d="M0 0V5" /></pattern></defs>
      ${drawn.map(({ level, live, gone }, index) => html`
        <g key=${level}>
          <text x="4" y=${index * ROW + ROW / 2 + 4}>level ${level}</text>
          <path class="axis" d=${`M${LEFT} ${(index + 1) * ROW}H${WIDTH - 8}`} />
          <path class=${"segment level-" + Math.min(level, 3)} d=${live} />
          ${gone && html`<path class="gone" d=${gone} fill="url(#hatch)" />`}
        </g>`)}
      ${moving.map(({ task, frames, arrow, goal }) => html`<g key=${task.id} class=${"task " + task.state}>
        <path class="goal" d=${goal} /><path class="frame" d=${frames} />${arrow && html`<path class="arrow" d=${arrow} />`}</g>`)}
      ${at && html`<path class="chosen" d=${box(at.x - 1, at.y - 1, at.width + 2, at.height + 2)} />`}
      ${came && html`<path class="came" d=${came} />`}
      ${ticks.map(([part, text]) => html`<text key=${part} class="tick" x=${LEFT + (WIDTH - LEFT - 10) * part} y=${tall - 5}
        text-anchor=${part === 0 ? "start" : part === 1 ? "end" : "middle"}>${text}</text>`)}
    </svg>
    ${tasks.length > 0 && html`<${Tasks} tasks=${tasks} />`}
    <p class="dim readout" aria-live="off">${say || `${timed ? `Segments along column ${plain(eventTime)}, in UTC` : "Segments side by side; their width is the number of rows"}. Hatched: rows hidden by deletion vectors.`
        + (more ? ` The first ${number(segments.length)} segments.` : "")}</p>`;
}
