"""Built-in kinds of the API server, one file each: kinds/<group>/<kind>.py.

Each file contains the defaults, validation, update rules and table cells of its kind, and ends in RESOURCE, the
ResourceDefinition that combines them. The order of functions follows upstream's
pkg/registry/<group>/<kind>/strategy.go. The folders named shared/ contain code that several kinds of a group use.

Functions have the names of the hooks that they implement (see Strategy). A function wrong_… or …_errors yields the
field errors of a part of an object. `field`, `path` and `at` are field paths for errors, such as "spec.ports[0]".

built_in.py lists the kinds that are served, off_by_default.py the kinds that are served only if enabled, and bodies.py
the kinds that exist only as request bodies of subresources. docs/adding-a-kind.md describes how to add a kind.
"""
