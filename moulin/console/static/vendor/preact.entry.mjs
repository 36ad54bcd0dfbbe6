// What preact.js is bundled from, with the versions that LICENSE names:
// npx esbuild@0.28.2 preact.entry.mjs --bundle --format=esm --minify --legal-comments=none --outfile=preact.js
export { h, render, Fragment } from "preact";
export { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } from "preact/hooks";
export { signal, computed, effect, batch } from "@preact/signals";
import { h } from "preact";
import htm from "htm";
export const html = htm.bind(h);
