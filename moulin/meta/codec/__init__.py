"""Values <-> messages, and errors <-> gRPC status. No I/O, no SQL.

Names have one direction: `to_message_x(value)` returns a message, `from_message_x(message)` returns a value. A module
is named by its noun. Messages of the two wire packages differ, so each package has a room: `lake` for `moulin.lake.v1`
(lakes in other processes) and `meta` for `moulin.meta.v1` (the public services). Both use `id` (ids are UUIDs), `page`
(messages in pages) and `errors` (gRPC status).
`from_message_x` also handles untrusted messages: invalid content raises InvalidInput, never another exception.
May import the model, formats, storage, `table.properties` and the value types of the catalog; no other room of meta.
Read `lake/table.py` first, and `errors.py` for errors.
"""

# Decisions: docs/decisions/0211
