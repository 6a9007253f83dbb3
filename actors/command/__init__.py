"""`run-kcm`: the command line of the controller manager. Read run_kcm.py first.

running: the work, once the flags are read. starting: what a run stands on, made from its flags. manifests: --apply.
greeting: what people are shown. wait: until another run is ready.
"""
