r"""Common Expression Language (CEL), as Kubernetes uses it.

CEL is a small language of expressions without loops or side effects. This package parses, type-checks, estimates and
evaluates expressions with the semantics of cel-go v0.26 and the libraries that Kubernetes 1.36 adds. It does not depend
on the API server. docs/decisions explains why it is our own.

 source -> lexer -> parser (macros expanded) -> checker (types, overloads) -> program (closures)
                                                             \-> cost (upper bound of the cost of a run)

It is imported when the first expression is compiled.
"""
