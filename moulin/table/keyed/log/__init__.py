"""The log of a region: entries with positions, kept until a segment has them.

log.py is the protocol: append, commit, replay, trim. local_log.py keeps it in files on a disk, of which log_file.py
is the one being written; store_log.py keeps it as numbered objects in a store. log_reader.py reads either of them
without claiming it. A log has one writer, which the catalog names; owner.py says whether that process lives, and
the next process that claims the region fences it. The bytes are described in docs/formats.

Imports formats and storage, and nothing of table/. Read log.py first.
"""
