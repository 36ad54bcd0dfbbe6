// What codemirror.js is bundled from, with the versions that LICENSE names:
// npx esbuild@0.28.2 codemirror.entry.mjs --bundle --format=esm --minify --legal-comments=none --outfile=codemirror.js
export { EditorState, Compartment, Prec, StateEffect, StateField } from "@codemirror/state";
export { EditorView, keymap, lineNumbers, drawSelection, highlightActiveLine, placeholder, Decoration } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { HighlightStyle, syntaxHighlighting, bracketMatching } from "@codemirror/language";
export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, acceptCompletion, startCompletion, completionStatus } from "@codemirror/autocomplete";
export { SQLDialect, sql } from "@codemirror/lang-sql";
export { tags } from "@lezer/highlight";
