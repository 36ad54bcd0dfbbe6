// A plan as a picture: the last step at the top, what it reads from below, and how much of each table is read.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { Problem, Waiting } from "../parts.js";
import { number, plain } from "../text.js";

export function PlanView({ id }) {
  const [found, set] = useState({ id: null });
  useEffect(() => {
    const stop = new AbortController();
    get(`/sql/${id}/plan`, stop.signal).then((plan) => set({ id, plan }), (error) => stop.signal.aborted || set({ id, error }));
    return () => stop.abort();
  }, [id]);
  if (found.id !== id) return html`<${Waiting} />`;
  if (found.error) return html`<${Problem} error=${found.error} />`;
  const { shares, steps } = found.plan;
  return html`
    ${shares.length > 0 && html`<ul class="shares" aria-label="Segments that are read">${shares.map((one, index) => html`
      <li key=${index}><b>${plain(one.table)}</b> <span>reads ${number(one.read)} of ${number(one.total)} segments</span>
        <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="6" class="all" />
          <rect width=${one.total ? Math.max(one.read ? 1 : 0, (100 * one.read) / one.total) : 0} height="6" class="part" /></svg></li>`)}</ul>`}
    <div class="plan" tabindex="0" role="region" aria-label="Steps of the plan"><ul>${steps.map((one, index) => html`<${Step} key=${index} step=${one} />`)}</ul></div>`;
}

function Step({ step }) {
  return html`<li><div class="step"><b>${plain(step.name)}</b>
      ${step.details.map(([key, value], index) => html`<span key=${index} class="detail" title=${plain(value)}>${key && html`<i>${plain(key)}</i> `}${plain(value)}</span>`)}</div>
    ${step.inputs.length > 0 && html`<ul>${step.inputs.map((one, index) => html`<${Step} key=${index} step=${one} />`)}</ul>`}</li>`;
}
