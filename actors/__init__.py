"""Actors and their parts. Internal: programs that embed kcm import the package `kcm`.

The packages from the bottom up; imports point downwards only:

    options/          flags that belong to no single controller, and how all flags are read
    reconciliation/   API that controllers are written in: spec, watches, commands, steps
    engine/           informer, dispatcher, controller, manager, elector, event_recorder
    controllers/      the controllers, one file or folder each, by domain; built_in.py lists them
    explanation/      why an object is stuck: causes from objects, events and the state of the manager
    app/              assembly of a system from options and specs, health, connection, local cluster
    hollow/           nodes, kubelets and a scheduler whose pods run in appearance only
    faults/           planned faults in a running system
    console/          content of the web console
    command/          run-kcm and its subcommands
    simulation/       a cluster on virtual time, invariants, campaigns of seeded runs

Read engine/controller first, then one controller: controllers/workloads/replicaset/.
"""
