"""One table: how it is written, read, changed and committed.

The facade is table.py, with versions.py and settings.py; handle.py is what they share; transaction.py,
snapshot.py and stats.py stand beside it. staged.py is a table in a transaction, evolution.py an append that changes
the schema, casting.py a cast. branch_diff.py, publishing.py, publish_rows.py and trial.py are for branches. Below it
the rooms form an order, and imports point down only:

    facade > bulk > keyed > compact > index > write > read > context > find > commit
           > pins | ports | properties > runner

context.py holds what the tables of one lake share. ports.py has the protocols for Spark and Iceberg, which
`moulin.connect` fills in. runner.py maps a kernel over slices of work, here or on Spark; a kernel lives beside its
slice, in the room that plans it.

Nothing here imports PySpark at run time, SQL drivers, gRPC or HTTP. Read table.py first, then context.py, then
commit/change.py.
"""

# Decisions: docs/decisions/0200
