"""Reading rows: scans and feeds.

scan.py plans from the catalog's facts, reads what may match in parallel, a bounded number of bytes ahead, and streams
batches in the order of segments. feed.py gives what changed between two versions, which feed_reader.py reads.
verified.py remembers which local files had their checksums verified by this process. Readers pin the version they
read (pins.py), so that clean-up leaves its files alone.

Imports context, find/ and what is below them. Scans in key order are in keyed/. Read scan.py first.
"""
