"""Structural schemas of CustomResourceDefinitions: what they demand of themselves, and of the objects of their kind.

schemas         a schema as JSON, and how it is walked
structure       whether a schema is structural; openapi_rules and defaults: what else it may say
settling        pruning, nulls and defaults, in one pass
checking        whether an object is valid, fast; explaining: what is wrong with it, in upstream's words
list_types      lists that are sets or maps; embedded: objects inside of objects
"""
