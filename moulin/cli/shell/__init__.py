r"""`moulin shell`: a prompt for SQL over a lake, or statements from a pipe.

`shell` is the command; it takes lines from `prompt` (a terminal, with prompt_toolkit) or from standard input. `script`
cuts them into statements and backslash commands. `session` runs these and keeps what was set; it lets Ctrl-C stop a
statement. `commands` has the backslash commands, `completion` what the Tab key offers.

May import: `cli.query` and what lies below it; only `prompt` and `completion` import prompt_toolkit.
Read first: `session.py`.
"""
