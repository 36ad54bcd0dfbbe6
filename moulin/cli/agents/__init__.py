"""`moulin mcp`: the lake for AI agents, over the Model Context Protocol on standard input and output.

`tools` has the tools as plain functions with limited results; `server` serves them with the
package `mcp` (an extra) and is the command. `read_only` runs the statements.

May import: `cli.options`, `cli.output`, `cli.documents` and the layers below `cli`; only `server` imports `mcp`.
Read first: `tools.py`.
"""
