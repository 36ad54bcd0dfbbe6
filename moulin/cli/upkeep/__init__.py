"""Commands for maintenance.

`maintenance` has compact, gc, check and recover. `backfill` loads folders of files, `mirror` copies a lake to another
storage root, `manifests` writes full manifests now.

May import: `cli.options`, `cli.output`, and every layer; not the other rooms of `cli`.
Read first: `maintenance.py`.

Words: compact rewrites segments and changes no row; gc deletes files that no kept version uses; check reads and
changes nothing; recover rebuilds a catalog from manifests.
"""
