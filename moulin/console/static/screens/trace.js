// One trace: what it is, its waterfall, and the span that is chosen.

import { html, useMemo, useState } from "../vendor/preact.js";
import { query } from "../api.js";
import { Cards, Copy, Problem, Waiting } from "../parts.js";
import { useResource } from "../resources.js";
import { instant, number, plain, plural, took } from "../text.js";
import { colorOf, Waterfall } from "./waterfall.js";
import { SpanDetail } from "./span.js";

const MARGIN = 60000000000n;

// Spans as numbers that pictures can use: `start` and `length` are nanoseconds since the trace began.
function spansOf(data) {
  const base = BigInt(data.start);
  const { rows } = data;
  const critical = new Map();
  data.critical.row.forEach((row, index) => {
    const part = [data.critical.start[index], data.critical.end[index]].map((at) => Number(BigInt(at) - base));
    critical.set(row, [...(critical.get(row) ?? []), part]);
  });
  const spans = rows.span_id.map((id, index) => ({
    index, id, parent: rows.parent[index], depth: rows.depth[index], service: data.services[rows.service[index]].service,
    name: data.names[rows.name[index]], start: Number(BigInt(rows.start[index]) - base), length: Number(rows.duration[index]),
    failed: rows.failed[index], critical: critical.get(index) ?? [], parents: false,
  }));
  for (const one of spans) if (one.parent >= 0) spans[one.parent].parents = true;
  return spans;
}

// The logs of the trace, in the range in which it ran.
const logsHash = (data) => "#/logs/" + query({ q: `trace_id:${data.id}`, start: String(BigInt(data.start) - MARGIN), end: String(BigInt(data.start) + BigInt(data.duration) + MARGIN) }).slice(1);

export function Trace({ id, at }) {
  const path = "/traces/" + encodeURIComponent(id);
  const { data, error } = useResource(path + query({ at }));
  const [chosen, choose] = useState(null);
  const spans = useMemo(() => (data ? spansOf(data) : []), [data]);
  if (!data) return error ? html`<h1>Trace</h1><${Problem} error=${error} /><p><a href="#/traces">All traces</a></p>` : html`<${Waiting} />`;
  const waited = new Map();
  for (const span of spans)
    for (const [from, to] of span.critical) waited.set(span.service, (waited.get(span.service) ?? 0) + to - from);
  const whole = [...waited.values()].reduce((sum, one) => sum + one, 0);
  return html`
    <div class="bar"><h1><b>${plain(data.service || "no service")}</b> ${plain(data.operation || "no name")}</h1>
      <span class="buttons"><a class="button" href=${logsHash(data)}>Logs</a><a class="button" href="#/traces">All traces</a></span></div>
    <p class="dim path">${plain(data.id)} <${Copy} text=${data.id} /> began ${instant(data.start, 9)}</p>
    ${data.notes.map((sentence) => html`<p key=${sentence} class="notice">${plain(sentence)}</p>`)}
    <${Problem} error=${error} />
    <${Cards} figures=${[
      ["took", took(data.duration)], ["spans", number(spans.length)],
      ["services", number(data.services.length)], ["failed spans", number(data.errors)],
      ["deepest", plural(spans.reduce((most, one) => Math.max(most, one.depth), 0) + 1, "level")],
    ]} />
    <ul class="parties" aria-label="Services, and their part of the critical path">
      ${data.services.map(({ service }) => html`<li key=${service}><i class="dot" style=${`--of:${colorOf(service)}`}></i>${plain(service || "no service")}
        ${whole > 0 && html` <span class="dim">${Math.round(((waited.get(service) ?? 0) / whole) * 100)} %</span>`}</li>`)}
    </ul>
    <div class=${"trace" + (chosen === null ? "" : " split")}>
      <${Waterfall} spans=${spans} length=${Number(data.duration)} chosen=${chosen} choose=${choose} />
      ${chosen !== null && spans[chosen] && html`<${SpanDetail} key=${chosen} path=${path} at=${data.start} base=${data.start} span=${spans[chosen]}
        onClose=${() => choose(null)} />`}
    </div>`;
}
