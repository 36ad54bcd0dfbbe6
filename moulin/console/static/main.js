// The frame of the console: who one is, where one is, and the screens.

import { effect, html, render, signal, useState } from "./vendor/preact.js";
import { get, logIn, logOut, me, signedOut } from "./api.js";
import { isPolling, staleSince, start, state, stop } from "./live.js";
import { Problem, Waiting } from "./parts.js";
import { clock, number, plain } from "./text.js";
import { Palette, paletteOpen } from "./palette.js";
import { theme, toggleTheme } from "./theme.js";

export const SCREENS = [
  ["", "Lake", () => import("./screens/lake.js")],
  ["sql", "SQL", () => import("./screens/sql.js")],
  ["activity", "Activity", () => import("./screens/activity.js")],
  ["branches", "Branches", () => import("./screens/branches.js")],
  ["logs", "Logs", () => import("./screens/logs.js"), "Telemetry"],
  ["traces", "Traces", () => import("./screens/traces.js")],
  ["metrics", "Metrics", () => import("./screens/metrics.js")],
  ["streams", "Streams", () => import("./screens/streams.js"), "Machinery"],
  ["tasks", "Tasks", () => import("./screens/tasks.js")],
  ["trash", "Trash", () => import("./screens/trash.js")],
  ["access", "Access", () => import("./screens/access.js")],
];
const HIDDEN = [
  ["table", "Table", () => import("./screens/table.js")],
  ["versions", "Versions", () => import("./screens/versions.js")],
];

const place = signal(parts());
const loaded = signal({}); // name -> component

function parts() {
  const [name = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return { name, rest, hash: location.hash };
}

addEventListener("hashchange", () => {
  place.value = parts();
  document.querySelector("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
});

effect(() => {
  const { name } = place.value;
  const screen = [...SCREENS, ...HIDDEN].find(([key]) => key === name);
  if (!screen || loaded.value[name]) return;
  screen[2]().then((module) => { loaded.value = { ...loaded.peek(), [name]: module.default }; });
  document.title = name ? `${screen[1]} · Moulin` : "Moulin";
});

effect(() => (me.value ? start() : stop()));

function Live() {
  if (staleSince.value !== null)
    return html`<span class="live stale" role="status"><i></i>stale since ${clock(new Date(staleSince.value))}</span>`;
  const { version } = state.value;
  return html`<span class="live" role="status"><i></i>${isPolling.value ? "every few seconds" : "live"}${version === null ? "" : `, version ${number(version)}`}</span>`;
}

function Frame() {
  const { name, rest, hash } = place.value;
  const Screen = loaded.value[name];
  const unknown = ![...SCREENS, ...HIDDEN].some(([key]) => key === name);
  const here = name === "table" || name === "versions" ? "" : name;
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.querySelector("main").focus(); }}>Skip to the content</a>
    <header>
      <a class="brand" href="#/"><img src="/assets/moulin.svg" alt="" width="24" height="24" />Moulin</a>
      <button class="find" onClick=${() => { paletteOpen.value = true; }} aria-keyshortcuts="Control+K">
        <span>Find a table, a column, a version …</span><kbd>Ctrl K</kbd></button>
      <span class="space"></span>
      <${Live} />
      ${me.value.tokens && html`<span class="who">${plain(me.value.name)} <span class="dim">(${me.value.role})</span></span>
        <button onClick=${logOut}>Log out</button>`}
      <button onClick=${toggleTheme} aria-label=${`Switch to the ${theme.value === "dark" ? "light" : "dark"} theme`}>◐</button>
    </header>
    <nav aria-label="Screens">
      ${SCREENS.map(([key, label, , group]) => html`
        ${group && html`<p class="group">${group}</p>`}
        <a key=${key} href=${"#/" + key} aria-current=${key === here ? "page" : null}>${label}
          ${key === "tasks" && state.value.merge_tasks > 0 && html`<span class="count">${number(state.value.merge_tasks)}</span>`}</a>`)}
    </nav>
    <main id="main" tabindex="-1">
      ${unknown ? html`<h1>There is no such screen</h1><p><a href="#/">Go to the lake</a></p>`
        : Screen ? html`<${Screen} key=${hash} rest=${rest} />` : html`<${Waiting} />`}
    </main>
    <${Palette} />`;
}

function Login() {
  const [token, setToken] = useState("");
  const [error, setError] = useState(null);
  const go = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      await logIn(token);
      setToken("");
    } catch (problem) {
      setError(problem);
    }
  };
  return html`
    <main class="login">
      <form onSubmit=${go}>
        <h1><img src="/assets/moulin.svg" alt="" width="32" height="32" /> Moulin</h1>
        <p>This server asks for an access token. Make one with <code>moulin access create NAME --role read</code>.</p>
        <label>Access token
          <input type="password" autocomplete="current-password" required value=${token} onInput=${(e) => setToken(e.currentTarget.value)} /></label>
        <${Problem} error=${error} />
        <p class="buttons"><button class="main">Log in</button></p>
      </form>
    </main>`;
}

const unreachable = signal(null);

function App() {
  if (me.value) return html`<${Frame} />`;
  if (signedOut.value) return html`<${Login} />`;
  return html`<main class="login">${unreachable.value ? html`<${Problem} error=${unreachable.value} />` : html`<${Waiting} />`}</main>`;
}

async function whoAmI() {
  try {
    me.value = await get("/me");
  } catch (error) {
    if (error.status === 401) return;
    unreachable.value = error;
    setTimeout(whoAmI, 2000);
  }
}

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && me.value) {
    event.preventDefault();
    paletteOpen.value = true;
  }
});

render(html`<${App} />`, document.getElementById("app"));
whoAmI();
