"""Reading rows: scans and feeds.

scan.py plans from the catalog's facts and streams batches in the order of segments; units.py reads what may match in
parallel, a bounded number of bytes ahead. feed.py gives what changed between two versions, which feed_reader.py reads.
footers.py keeps footers of segments, and remembers which chunks of local files had their checksums verified by this
process. Readers pin the version they read (pins.py), so that clean-up leaves its files alone. turns.py lets threads
that run Python all the time give way to scans.

Imports context, find/ and what is below them. Scans in key order are in keyed/. Read scan.py first.
"""
