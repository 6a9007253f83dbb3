"""`run-kcm`: the command line of the controller manager. Read run_kcm.py first.

run: the run after the flags are parsed. run_setup: its parts, created from the flags. manifests: --apply.
greeting: output for users. wait: waits until another run is ready. why: explains why an object is stuck.
ctl: shows and changes the controllers of a running manager. control_tables: its tables.
top: live screen of them. completion: scripts for shells.
console: the web console of a run. program_pages: pages of a program that embeds a system.
manager_client: requests to a running manager. manager_access: how it finds the manager of an embedded cluster.
"""
