"""`run-kcm dev`: runs an operator while its author edits it.

command.py     the subcommand: it starts a cluster and a system, and checks files for changes
modules.py     modules of a project, and their import after a change
observed.py    specs with replaceable code, and a record of reconciliations
screen.py      lines, or a live table on a terminal
"""
