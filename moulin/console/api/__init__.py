"""The HTTP API of a lake: `/api/v1`. See docs/operations/api.md.

Every module has one `router`. Each route names the role that it takes (`requests.takes`), by which the gate of the
server lets callers through. Ids are in paths, 64-bit numbers are text, lists come in pages.

Read first: `requests.py`.
"""
