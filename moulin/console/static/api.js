// Requests to /api/v1. An answer that the server says is still right is taken from here.

import { signal } from "./vendor/preact.js";

export const me = signal(null); // {name, role, tokens}; null until known
export const signedOut = signal(false);

const BASE = "/api/v1";
const KEPT = 200;
const known = new Map(); // path -> {tag, data}
const ROLES = ["read", "write", "pipeline", "admin"];

export class Refused extends Error {
  constructor(status, type, message) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

async function send(method, path, body, headers = {}, signal = undefined) {
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method,
      headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal,
    });
  } catch {
    throw new Refused(0, "Unreachable", "The server cannot be reached.");
  }
  if (answer.ok || answer.status === 304) return answer;
  let error = {};
  try {
    error = (await answer.json()).error ?? {};
  } catch {}
  if (answer.status === 401 && path !== "/session") forget();
  throw new Refused(answer.status, error.type ?? "Error", error.message ?? `The server answered ${answer.status}.`);
}

export function forget() {
  known.clear();
  me.value = null;
  signedOut.value = true;
}

export async function get(path, signal) {
  const before = known.get(path);
  const answer = await send("GET", path, undefined, before ? { "if-none-match": before.tag } : {}, signal);
  if (answer.status === 304) return before.data;
  const data = await answer.json();
  const tag = answer.headers.get("etag");
  if (tag) {
    known.delete(path);
    known.set(path, { tag, data });
    if (known.size > KEPT) known.delete(known.keys().next().value);
  }
  return data;
}

export async function change(method, path, body) {
  const answer = await send(method, path, body);
  return answer.status === 204 ? null : answer.json();
}

export async function logIn(token) {
  me.value = await change("POST", "/session", { token });
  signedOut.value = false;
}

export async function logOut() {
  await change("DELETE", "/session");
  forget();
}

export const may = (role) => me.value !== null && ROLES.indexOf(me.value.role) >= ROLES.indexOf(role);

export const query = (values) => {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? "?" + new URLSearchParams(given) : "";
};
