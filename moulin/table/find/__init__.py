"""Finding rows without reading them.

locate.py finds rows by key: the key indexes of segments, the cache of their blocks, and positions of many keys at once.
index_files.py opens and caches the files of secondary indexes. index_search.py looks up the segments and positions that
may match a condition; it may return too many rows but never too few. Nothing here reads segments. Index files are built
in index/.

Imports commit/ (for deletion vectors) and the layers below table. Read locate.py first.
"""
