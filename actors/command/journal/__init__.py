"""What one does with a journal: `run-kcm journal show` and `run-kcm journal replay`.

command: both, from the command line. replay: a controller is handed what it was
handed then, and has to ask for the same. stage: what stands around it meanwhile.
"""
