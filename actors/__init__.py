"""Who does the work: the actors, and what they are made of. Internal; programs that embed us import `kcm`.

From the bottom up; imports point downwards only:

    options/          flags that belong to no single controller, and how all flags are read
    reconciliation/   what a controller is written in: spec, watches, commands, steps
    engine/           the fixed cast: informer, dispatcher, controller, manager, elector, event_recorder
    controllers/      the controllers, one file or folder each, by domain; built_in.py lists them
    app/              how a system comes about: from options and specs to actors, health, connection, local cluster
    hollow/           nodes, kubelets and a scheduler that run pods in appearance
    faults/           planned faults in a running system
    command/          run-kcm and its subcommands
    simulation/       how all of it is tried: a cluster on virtual time, invariants, seeded campaigns

Read engine/controller first, then one controller: controllers/workloads/replicaset/.
"""
