// Segments of a table as a picture: a row for each level, along event time, or along their rows where there is none.
// The lower, hatched part of a segment is what its deletion vector hides.

import { html, useMemo, useState } from "../vendor/preact.js";
import { millis, moment, number, plain, plural, size } from "../text.js";

const WIDTH = 1000;
const ROW = 64;
const LEFT = 70;
const MOST_LANES = 8;

function lay(segments, timed) {
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
  return { levels: [...levels].sort(([a], [b]) => a - b), from, to };
}

const box = (x, y, width, height) => `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h-${width.toFixed(1)}z`;

export function Levels({ segments, eventTime, more }) {
  const timed = eventTime !== null && segments.every((one) => one.time_min !== null);
  const { levels, from, to } = useMemo(() => lay(segments, timed), [segments, timed]);
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
  const tall = levels.length * ROW + 22;
  const find = (event) => {
    const frame = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const y = ((event.clientY - frame.top) / frame.height) * tall;
    hover(places.find((p) => x >= p.x - 1 && x <= p.x + p.width + 1 && y >= p.y && y <= p.y + p.height)?.one ?? null);
  };
  const label = levels.map(([level, { items }]) => `level ${level}: ${plural(items.length, "segment")}`).join(", ");
  const ticks = timed ? [0, 0.25, 0.5, 0.75, 1].map((part) => [part, moment(String(BigInt(Math.round(from + (to - from) * part)) * 1000000n)).slice(5, 19)]) : [];
  return html`
    <svg class="levels" viewBox=${`0 0 ${WIDTH} ${tall}`} role="img" aria-label=${label} onMouseMove=${find} onMouseLeave=${() => hover(null)}>
      <defs><pattern id="hatch" width="5" height="5" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">
        <rect class="hatch-back" width="5" height="5" /><path class="hatch-line" d="M0 0V5" /></pattern></defs>
      ${drawn.map(({ level, live, gone }, index) => html`
        <g key=${level}>
          <text x="4" y=${index * ROW + ROW / 2 + 4}>level ${level}</text>
          <path class="axis" d=${`M${LEFT} ${(index + 1) * ROW}H${WIDTH - 8}`} />
          <path class=${"segment level-" + Math.min(level, 3)} d=${live} />
          ${gone && html`<path class="gone" d=${gone} fill="url(#hatch)" />`}
        </g>`)}
      ${ticks.map(([part, text]) => html`<text key=${part} class="tick" x=${LEFT + (WIDTH - LEFT - 10) * part} y=${tall - 5}
        text-anchor=${part === 0 ? "start" : part === 1 ? "end" : "middle"}>${text}</text>`)}
    </svg>
    <p class="dim readout" aria-live="off">${hovered
      ? `segment ${number(hovered.number)} · level ${hovered.level} · ${plural(hovered.live, "row")} of ${number(hovered.rows)} · ${size(hovered.bytes)}`
        + (hovered.partition ? ` · ${plain(hovered.partition)}` : "") + ` · since version ${number(hovered.added_version)}`
      : `${timed ? `Along ${plain(eventTime)}, in UTC` : "Side by side, as wide as they have rows"}; hatched is what deletion vectors hide.`
        + (more ? ` The first ${number(segments.length)} segments.` : "")}</p>`;
}
