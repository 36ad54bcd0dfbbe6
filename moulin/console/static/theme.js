// Light or dark: as the system says, until the user does.

import { effect, signal } from "./vendor/preact.js";

const KEY = "moulin.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const theme = signal(kept() ?? (dark.matches ? "dark" : "light"));

dark.addEventListener("change", () => {
  if (!kept()) theme.value = dark.matches ? "dark" : "light";
});

effect(() => { document.documentElement.dataset.theme = theme.value; });

export function toggleTheme() {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {}
}
