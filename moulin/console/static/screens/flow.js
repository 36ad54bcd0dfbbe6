// Ingest as a picture: a line for each stream, from its collector over what is stored to tables and their segments, with the lag at each step.

import { html } from "../vendor/preact.js";
import { useResource } from "../resources.js";
import { ago, moment, number, plain, plural, size, span } from "../text.js";

const SLOW = 60;
const MOST = 12;

const Step = ({ kind = "", title, children }) => html`<div class=${"step " + kind}><b title=${plain(title)}>${plain(title)}</b>${children}</div>`;

const Arrow = ({ text, kind = "" }) => html`<div class=${"arrow " + kind}><span>${text}</span></div>`;

// How many segments of a table are fresh, and wait for a compaction.
function Segments({ id }) {
  const { data } = useResource("/tables/" + id);
  if (!data) return null;
  const fresh = data.levels.find((one) => one.level === 0)?.segments ?? 0;
  return html`<span>${plural(fresh, "segment")} at level 0, ${number(data.segments - fresh)} below</span>
    <span class="dim">${number(data.rows)} live rows</span>`;
}

function Tables({ stream }) {
  if (stream.tables.length === 0) return html`<${Step} title="No table yet"><span class="dim">the nursery has taken nothing in</span><//>`;
  return html`<div class="steps">${stream.tables.map((one) => {
    const behind = BigInt(stream.frontier) - BigInt(one.merged_offset);
    return html`<${Step} key=${one.table_id} title=${one.table}>
      <span>${stream.waiting === 0 && behind <= 0n ? "has everything" : html`complete up to <span title=${moment(one.merged_time)}>${ago(one.merged_time)}</span>`}</span>
      <${Segments} id=${one.table_id} /><a href=${"#/table/" + one.table_id} aria-label=${"Open " + plain(one.table)}>open</a><//>`;
  })}</div>`;
}

function Line({ stream }) {
  const stuck = stream.missing !== null;
  const slow = stuck || stream.lag_seconds > SLOW;
  return html`<li>
    <${Step} title=${stream.description || stream.collector}><span>${stream.stopped_at ? "has ended" : "collects"}</span>
      <span class="dim" title=${stream.id}>stream ${stream.id.slice(0, 8)}</span><//>
    <${Arrow} text=${stream.stored_at === null ? "nothing stored yet" : `newest stored ${ago(stream.stored_at)}`} />
    <${Step} kind=${slow ? "slow" : ""} title=${stream.waiting ? plural(stream.waiting, "baby segment") : "Nothing waits"}>
      <span>${stream.waiting ? `${size(stream.waiting_bytes)} stored and acknowledged` : "everything stored is in tables"}</span>
      ${stuck && html`<span class="fault">number ${number(stream.missing)} is missing</span>`}<//>
    <${Arrow} kind=${slow ? "slow" : ""} text=${stream.waiting ? `oldest waits ${span(stream.lag_seconds)}` : "no lag"} />
    <${Tables} stream=${stream} />
  </li>`;
}

export function Flow({ streams }) {
  const live = streams.filter((one) => one.stopped_at === null || one.waiting > 0);
  if (live.length === 0) return null;
  return html`<section class="panel"><h2>From collectors to segments</h2>
    <ol class="flow" aria-label="Flow of ingest">
      <li class="heads" aria-hidden="true"><span>collector</span><span></span><span>stored, and readable as fresh records</span><span></span><span>tables and their segments</span></li>
      ${live.slice(0, MOST).map((one) => html`<${Line} key=${one.id} stream=${one} />`)}</ol>
    ${live.length > MOST && html`<p class="dim">And ${plural(live.length - MOST, "stream")} more, below.</p>`}</section>`;
}
