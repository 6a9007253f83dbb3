"""The kinds that the server knows, one file each: kinds/<group>/<kind>.py.

A kind's file holds all that is its own (defaults, validation, what a status write may change, the cells of its table)
and ends in RESOURCE, the ResourceDefinition that puts them together. It can be read beside upstream's
pkg/registry/<group>/<kind>/strategy.go. shared/ holds what several kinds have in common.

built_in.py lists the kinds that are served, off_by_default.py those that are only where a program wants them, bodies.py
the kinds that are only bodies of subresources. custom.py makes definitions from CustomResourceDefinitions.

docs/adding-a-kind.md: how to add a kind.
"""
