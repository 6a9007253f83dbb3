"""Structural schemas of CustomResourceDefinitions: validation of the schemas, and of the objects of their kind.

schemas               a schema as JSON, and traversal of it
structure             whether a schema is structural; openapi_rules and defaults: its other restrictions
pruning_and_defaults  pruning, nulls and defaults, in one pass
validators            fast validation of objects; validation_errors: the errors of invalid ones, with upstream's texts
list_types            lists that are sets or maps; embedded: objects inside objects
"""
