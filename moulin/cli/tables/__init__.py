"""Commands for databases, tables, views, indexes and rows.

`databases` is `moulin db`, `tables` is `moulin table`, `views` and `index` are the commands of that name. `data` moves
rows (append, scan, delete, sql) and reads them from `files`; `get` finds one row by key, `feed` is `moulin changes`.
`stats` draws the inside of a table.

May import: `cli.options`, `cli.output`, and the API; not the other rooms of `cli`.
Read first: `data.py`.
"""
