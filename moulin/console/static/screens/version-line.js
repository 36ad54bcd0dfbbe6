// Versions as a line from left to right, and branches as lines beside it: where each leaves main, and where it was published.

import { html, useMemo, useState } from "../vendor/preact.js";
import { moment, number, plain, plural } from "../text.js";
import { stepped } from "./axis.js";

const WIDTH = 1000;
const SIDE = 16;
const MAIN = 36;
const LANE = 26;
const MOST = 80;
const MOST_LANES = 8;
const WIDEST = 44; // between two versions
const LETTER = 7;
const QUIET = new Set(["merge", "compact", "fold", "replace"]);

// Lines of branches, each in a lane that is free as long as it goes.
function lines(dots, branches) {
  const found = [];
  const ends = [];
  const right = dots.at(-1)?.x ?? 0;
  const at = (version) => dots.findLast((dot) => dot.on === null && dot.version <= version);
  const ordered = branches.toSorted((a, b) => Number(BigInt(a.version) - BigInt(b.version)) || Number(BigInt(a.created_at) - BigInt(b.created_at)));
  for (const [index, one] of ordered.entries()) {
    const next = ordered.find((other, at) => at > index && other.name === one.name); // a name may be given again
    const published = one.published_version === null ? null : BigInt(one.published_version);
    const mine = dots.filter((dot) => dot.on === one.name && dot.version > BigInt(one.version) && (published === null || dot.version < published) && (!next || dot.version <= BigInt(next.version)));
    const back = published === null ? null : dots.find((dot) => dot.version === published) ?? null;
    if (mine.length === 0 && (one.dropped || published !== null) && back === null) continue;
    const from = at(BigInt(one.version))?.x ?? 0;
    const to = back?.x ?? (one.dropped ? mine.at(-1).x : Math.max(right, from + 30));
    let lane = ends.findIndex((end) => end < from);
    if (lane < 0) lane = ends.length;
    if (lane >= MOST_LANES) continue;
    ends[lane] = Math.max(to, (mine[0]?.x ?? from) + one.name.length * LETTER + 24);
    found.push({ one, lane, from, to, back, mine });
    for (const dot of mine) dot.lane = lane;
  }
  return { found, lanes: ends.length };
}

function lay(versions, branches) {
  const known = new Set(branches.map((one) => one.name));
  const shown = versions.slice(0, MOST).reverse();
  const step = Math.min(WIDEST, (WIDTH - 2 * SIDE - 30) / Math.max(1, shown.length - 1));
  const dots = shown.map((one, index) => ({ ...one, version: BigInt(one.version), lane: -1, x: SIDE + index * step, on: known.has(one.on) ? one.on : null }));
  return { dots, step, ...lines(dots, branches) };
}

const height = (lane) => MAIN + (lane + 1) * LANE;

function path({ lane, from, to, back }) {
  const y = height(lane);
  const bend = Math.min(20, Math.max(6, (to - from) / 3));
  const end = back ? `H${to - bend}C${to} ${y} ${to} ${y} ${to} ${MAIN}` : `H${to}`;
  return `M${from} ${MAIN}C${from} ${y} ${from} ${y} ${from + bend} ${y}${end}`;
}

// Names of versions above the line: those that have room.
function named(dots, tags) {
  const found = [];
  let free = -Infinity;
  for (const dot of dots) {
    const names = dot.lane < 0 ? tags[String(dot.version)] : undefined;
    if (!names || dot.x < free) continue;
    const text = plain(names.join(", ")).slice(0, 30);
    found.push({ dot, text });
    free = dot.x + text.length * LETTER + 12;
  }
  return found;
}

// `versions`, newest first: {version, at, what, kind, on}, on being the name of a branch or null. `tags`: names by version.
export function VersionLine({ versions, branches = [], tags = {} }) {
  const { dots, step, found, lanes } = useMemo(() => lay(versions, branches), [versions, branches]);
  const [hovered, hover] = useState(null);
  if (dots.length < 2) return null;
  const tall = height(lanes) + 12;
  const last = dots.findLast((dot) => dot.lane < 0) ?? dots.at(-1);
  const first = dots.find((dot) => dot.lane < 0) ?? dots[0];
  const every = Math.max(1, Math.ceil(64 / step));
  const find = (event) => {
    const frame = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const near = dots.reduce((best, dot) => (Math.abs(dot.x - x) < Math.abs(best.x - x) ? dot : best));
    hover(Math.abs(near.x - x) <= Math.max(step, 8) ? near : null);
  };
  const label = `Versions ${dots[0].version} to ${dots.at(-1).version} as a line`
    + found.map(({ one }) => `; branch ${plain(one.name)} from version ${one.version}${one.published_version === null ? "" : `, published as ${one.published_version}`}`).join("");
  const say = hovered ? `version ${number(hovered.version)}${hovered.on ? ` on ${plain(hovered.on)}` : ""} · ${moment(hovered.at)} · ${plain(hovered.what)}${tags[String(hovered.version)] ? ` · ${tags[String(hovered.version)].map(plain).join(", ")}` : ""}` : "";
  const hoveredAt = dots.findIndex((dot) => dot.version === hovered?.version);
  return html`
    <svg class="versions" viewBox=${`0 0 ${WIDTH} ${tall}`} aria-label=${label} ...${stepped(dots, hoveredAt, hover, say)} onMouseMove=${find} onMouseLeave=${() => hover(null)}>
      <path class="main-line" d=${`M${Math.min(first.x, ...found.map((one) => one.from))} ${MAIN}H${last.x}`} />
      ${found.map((line) => html`<g key=${line.one.id} class=${"line-" + (1 + (line.lane % 7))}>
        <path class=${"branch-line" + (line.one.dropped && !line.back ? " dropped" : "")} d=${path(line)} />
        <text x=${line.from + 24} y=${height(line.lane) - 8}>${plain(line.one.name)}</text></g>`)}
      ${dots.map((dot) => html`<circle key=${dot.version} class=${(dot.lane < 0 ? "knot-main" : "line-" + (1 + (dot.lane % 7))) + (QUIET.has(dot.kind) ? " hollow" : "")}
        cx=${dot.x} cy=${dot.lane < 0 ? MAIN : height(dot.lane)} r=${dot.version === hovered?.version ? 6.5 : Math.min(4.5, Math.max(2, step / 2.4))} />`)}
      ${named(dots, tags).map(({ dot, text }) => html`<g key=${"tag" + dot.version}><path class="flag" d=${`M${dot.x} ${MAIN - 6}V${MAIN - 20}`} /><text class="tag" x=${dot.x + 4} y=${MAIN - 16}>${text}</text></g>`)}
      ${dots.map((dot, index) => (dots.length - 1 - index) % every === 0 && html`<text key=${"at" + dot.version} class="tick" x=${dot.x} y=${tall - 3}
        text-anchor=${index === 0 ? "start" : "middle"}>${number(dot.version)}</text>`)}
    </svg>
    <p class="dim readout">${say || `${versions.length > MOST ? `The newest ${MOST} versions` : plural(dots.length, "version")}, oldest on the left.${found.length ? " Lines below are branches." : ""} Hollow: rewritten, with the same rows.`}</p>`;
}

// What activity of the lake is as versions of a line.
export const lineOf = (happened) => happened.map((one) => ({
  version: one.version, at: one.at, kind: one.changes[0]?.kind ?? one.kind, on: one.changes.find((change) => change.branch !== null)?.branch ?? null,
  what: one.changes.length ? one.changes.slice(0, 3).map((change) => `${change.kind} ${change.table}`).join(", ") + (one.tables > 3 ? ` and ${one.tables - 3} more` : "") : one.kind,
}));
