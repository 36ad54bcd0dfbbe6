"""Columns of a table: their types, ids, defaults, and how a schema changes over time.

`types` says what can be stored, `type_reader` reads types from text and from Arrow, `schema` makes schemas and keeps
them as JSON, `arrow` is their Arrow form. `change` has the changes as values, `evolution` what each one does.

May import: `model.names` only. Every other room of `model` builds on this one.
Read first: `schema.py`, then `arrow.py`.

Nouns: a type has fields inside; a field has an id that is never reused; a schema is the list of top-level fields;
a change turns one schema into the next.
"""
