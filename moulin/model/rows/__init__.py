"""Input rows: converts user data to record batches of a table's schema.

`rows` takes data in any form and cuts it into batches. `conversion` fits Arrow arrays to columns, with
`leaf_conversion` for single values; `python_values` makes arrays of Python values. `record` checks one row at a time
for puts, where Arrow would be slower; `stored_values` has the checks of single values, `shown_values` the way back, and
`texts` values in files of text.

May import: `model.schema`, `model.names`, `model.columns`.
Read first: `rows.py`, whose `to_batches` is the entry for every write that is not a single put.
"""
