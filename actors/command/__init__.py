"""`run-kcm`: the command line of the controller manager. Read run_kcm.py first.

starting: what a run stands on, made from its flags. serving: health, metrics, debugging. manifests: --apply.
greeting: what people are shown.
"""
