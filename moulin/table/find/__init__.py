"""Finding rows without reading them.

locate.py finds rows by key: the key indexes of segments, the cache of their blocks, and positions of many keys at once.
index_files.py opens and caches the files of secondary indexes. index_search.py asks these files which segments, and
which positions in them, a condition can hold for; it may name too many rows and never too few. Nothing here reads
segments. Making index files is the business of index/.

Imports commit/ (for deletion vectors) and the layers below table. Read locate.py first.
"""
