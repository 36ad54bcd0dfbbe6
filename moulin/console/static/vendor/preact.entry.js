export { h, render, Fragment } from "preact";
export { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } from "preact/hooks";
export { signal, computed, effect, batch } from "@preact/signals";
import { h } from "preact";
import htm from "htm";
export const html = htm.bind(h);
