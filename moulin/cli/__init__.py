"""The command line: `moulin --lake URI COMMAND ...`.

`main` is the program, `commands` lists the commands, each loaded when it is called; `init` makes a lake. `tables/` has
those for databases, tables and rows, `services/` the processes that run until told to end, `upkeep/` those that keep a
lake in shape, `demo/` the tour. `options` reads what commands share, `output` prints for people, `documents` prints JSON, `progress`
shows how far a command is, `help` has the examples, `completion` the scripts of shells, `served` is what a server has besides its own.

May import: every layer. Nothing imports this package.
Read first: `main.py`, then `tables/data.py` as the pattern of a command.

A command opens the lake, makes one call of the API, and prints the answer, with --json as JSON.
"""
