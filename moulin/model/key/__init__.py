"""Keys: the primary key of a table as bytes that compare as its values do, and what is derived from it.

`key.py` is the key of a table: its columns, checks of a key that a user gives, and its bytes. `key_value.py` encodes
one value, `key_rows.py` the keys of many rows at once. `index_value.py` encodes values of columns with a secondary
index in the same way.

May import `layout`, `schema` and the plain values of `model`. Read `key.py` first.
Ladder: value (one column of one row) -> key (all key columns of a row).
"""
