// The editor of the SQL screen: CodeMirror in a shadow root, so that its styles need no inline style element.

import { html, useEffect, useRef } from "../vendor/preact.js";
import {
  Compartment, Decoration, EditorState, EditorView, HighlightStyle, SQLDialect, StateEffect, StateField, acceptCompletion,
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, drawSelection, history,
  historyKeymap, keymap, lineNumbers, placeholder, sql, startCompletion, syntaxHighlighting, tags,
} from "../vendor/codemirror.js";
import { change } from "../api.js";

const WORDS = "all and anti any array as asc between by case cast cross current_date current_timestamp cube delete desc describe distinct else end escape except exclude exists explain extract false fetch filter first following from full group grouping having ilike in inner insert intersect interval into is join last lateral left like limit merge natural not null nulls offset on or order outer over partition pivot preceding qualify range recursive replace right rlike rollup row rows select semi set sets table tablesample then timestamp to true union unnest unpivot update using values version view when where window with within";
const TYPES = "bigint binary boolean byte char date decimal double float int integer long map numeric real short smallint string struct text time timestamp_ntz tinyint ubigint uuid varchar";
const quoting = { spark: { identifierQuotes: "`", doubleQuotedStrings: true, backslashEscapes: true }, duckdb: { identifierQuotes: '"', doubleDollarQuotedStrings: true } };
const dialect = (engine) => SQLDialect.define({ keywords: WORDS, types: TYPES, hashComments: false, ...quoting[engine] });

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--panel)", fontSize: "13.5px", borderRadius: "8px", minHeight: "112px", maxHeight: "42vh" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--text)" },
  ".cm-content, .cm-gutter": { minHeight: "112px" },
  ".cm-gutters": { backgroundColor: "var(--soft)", color: "var(--dim)", border: "0", borderRadius: "8px 0 0 8px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--on)" },
  ".cm-placeholder": { color: "var(--dim)" },
  ".cm-mistake": { textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px", backgroundColor: "var(--badBack)" },
  ".cm-matchingBracket": { backgroundColor: "var(--on)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "8px", boxShadow: "0 8px 28px rgb(0 0 0 / .22)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "inherit", maxHeight: "17em", padding: "4px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 9px", borderRadius: "5px", display: "flex", gap: "10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--on)", color: "var(--onText)" },
  ".cm-completionIcon": { display: "none" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionDetail": { marginLeft: "auto", paddingLeft: "18px", fontStyle: "normal", color: "var(--dim)", fontSize: "12px" },
  "li[aria-selected] .cm-completionDetail": { color: "var(--onText)" },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--l2)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: "var(--dim)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--l3)" },
]);

const putMistake = StateEffect.define();
const mistakes = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects) if (effect.is(putMistake)) return marked(transaction.state.doc, effect.value);
    return transaction.docChanged ? Decoration.none : shown;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function marked(doc, at) {
  if (!at || at.line < 1 || at.line > doc.lines) return Decoration.none;
  const line = doc.line(at.line);
  if (!line.length) return Decoration.none;
  const characters = [...line.text];
  const start = Math.min(line.length - 1, characters.slice(0, (at.column ?? 1) - 1).join("").length);
  const length = at.column ? Math.max(1, /^[\w.$]*/.exec(line.text.slice(start))[0].length) : line.length;
  return Decoration.set([Decoration.mark({ class: "cm-mistake" }).range(line.from + start, line.from + start + length)]);
}

// What may follow comes from the server, which knows the catalog.
function source(engine) {
  return async (context) => {
    const before = context.state.sliceDoc(0, context.pos);
    if (!context.explicit && !/[\w$@.`"]$|\b(from|join)\s$/i.test(before)) return null;
    try {
      const found = await change("POST", "/sql/complete", { before, after: context.state.sliceDoc(context.pos), engine: engine() });
      if (context.aborted || !found.items.length) return null;
      if (found.items.some((one) => one.text === found.replaced) && found.items.length === 1) return null;
      const most = found.items.length;
      return {
        from: context.pos - found.replaced.length, validFor: /^[`"]?[\w$@]*$/,
        options: found.items.map((one, index) => ({ label: one.text, type: one.kind, detail: one.detail || one.kind, boost: Math.round(60 * (1 - index / most)) })),
      };
    } catch {
      return null;
    }
  };
}

// `text` is a signal, changed as one types. `mistake`: {line, column}. `onRun` is called by Ctrl-Enter.
export function Editor({ text, engine, mistake, onRun }) {
  const host = useRef(null);
  const view = useRef(null);
  const now = useRef({});
  now.current = { engine, onRun };
  const language = useRef(new Compartment());
  useEffect(() => {
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const run = () => { now.current.onRun(); return true; };
    const state = EditorState.create({
      doc: text.peek(),
      extensions: [
        keymap.of([{ key: "Mod-Enter", run, preventDefault: true }, { key: "Tab", run: acceptCompletion }, { key: "Mod-Space", run: startCompletion }]),
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), mistakes, EditorView.lineWrapping,
        autocompletion({ override: [source(() => now.current.engine)], activateOnTypingDelay: 60, icons: false }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        language.current.of(sql({ dialect: dialect(engine) })), syntaxHighlighting(colours), theme,
        placeholder("select * from database.table limit 100"),
        EditorView.contentAttributes.of({ "aria-label": "SQL", spellcheck: "false", autocorrect: "off" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) text.value = update.state.doc.toString(); }),
      ],
    });
    view.current = new EditorView({ state, root, parent: root });
    view.current.scrollDOM.tabIndex = -1;
    view.current.focus();
    const stop = text.subscribe((value) => {
      const shown = view.current.state.doc;
      if (value !== shown.toString()) view.current.dispatch({ changes: { from: 0, to: shown.length, insert: value }, selection: { anchor: value.length } });
    });
    return () => { stop(); view.current.destroy(); };
  }, []);
  useEffect(() => { view.current.dispatch({ effects: language.current.reconfigure(sql({ dialect: dialect(engine) })) }); }, [engine]);
  useEffect(() => { view.current.dispatch({ effects: putMistake.of(mistake) }); }, [mistake]);
  return html`<div class="editor" ref=${host}></div>`;
}
