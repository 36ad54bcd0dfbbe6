"""Commands for databases, tables, views, indexes and rows.

`databases` is `moulin db`, `tables` is `moulin table`, `views` and `index` are the commands of that name. `data` moves
rows (append, scan, delete, sql) and reads them from `files`; `get` finds one row by key, `feed` is `moulin changes`.
`stats` and `plot`
draw the inside of a table, `history` the versions of a lake.

May import: `cli.options`, `cli.output`, and the API; not the other rooms of `cli` but `query`.
Read first: `data.py`.
"""
