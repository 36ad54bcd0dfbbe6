"""The command line: `moulin --lake URI COMMAND ...`.

`main` is the program, `commands` lists the commands, each loaded when it is called; `init` makes a lake. `tables/` has
those for databases, tables and rows, `services/` the processes that run until told to end, `upkeep/` those that keep a
lake in shape, `demo/` the tour, `agents/` the lake for agents, `completion` the scripts for shells. `options` reads
what commands share, `served` is what a server has besides its own. `output` prints for people, `documents` prints JSON,
`progress` shows how far a command is, `help` has the examples.

May import: every layer. Nothing imports this package.
Read first: `main.py`, then `tables/data.py` as the pattern of a command.

A command opens the lake, makes one call of the API, and prints the answer, with --json as JSON.
"""
