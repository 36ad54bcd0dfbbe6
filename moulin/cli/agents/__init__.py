"""The lake for agents: `moulin mcp`, a server of the Model Context Protocol on standard input and output.

`tools` has what an agent may do, as plain functions with bounded answers; `server` puts them on the wire with the
package `mcp` (an extra) and is the command. `read_only` runs the statements.

May import: `cli.options`, `cli.output`, `cli.documents` and the layers below `cli`; only `server` imports `mcp`.
Read first: `tools.py`.
"""
