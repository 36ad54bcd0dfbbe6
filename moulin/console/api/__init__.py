"""The HTTP API of a lake: `/api/v1`. See docs/operations/api.md.

Every module has one `router`. Each route declares the role that it needs (`requests.takes`), which the gate of the
server checks. Ids are in paths, 64-bit numbers are strings, lists are paged.

Read first: `requests.py`.
"""
