"""Foundation of the programs of `run-kcm envtest`, which are in kcm.actors.command.envtest."""
