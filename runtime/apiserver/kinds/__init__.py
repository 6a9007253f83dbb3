"""Built-in kinds, one file each: kinds/<group>/<kind>.py.

Each file contains the defaults, validation, update rules and table cells of its kind, and ends in RESOURCE, the
ResourceDefinition that combines them. Its order follows upstream's pkg/registry/<group>/<kind>/strategy.go. The
folders named shared/ contain code that several kinds of a group use.

built_in.py lists the kinds that are served, off_by_default.py those served only if enabled, and bodies.py the kinds
that exist only as bodies of subresources. docs/adding-a-kind.md describes how to add a kind.
"""
