"""Columns of a table: types, ids, defaults, and schema changes.

`values` has types and schemas as plain values, `documents` their JSON, `single_value` one value as bytes. `types` has
the supported types; `type_reader` reads types from text, `arrow_reader` from Arrow, `foreign` from pyiceberg's objects.
`schema` makes schemas, `arrow` is their Arrow form. `change` has the changes as values, `evolution` what each does.

May import: `model.names` and `model.columns`. Every other room of `model` builds on this one.
Read first: `values.py`, then `schema.py`.

Nouns: a type has fields inside; a field has an id that is never reused; a schema is the list of top-level fields;
a change turns one schema into the next.
"""
