"""The Common Expression Language, as Kubernetes uses it.

A small language of expressions without loops or side effects. This package parses, type-checks, estimates and
evaluates it with the meaning of cel-go v0.26 and with the libraries that Kubernetes 1.36 adds, without any other
part of the API server. docs/decisions says why it is ours.

 source -> lexer -> parser (macros expanded) -> checker (types, overloads) -> program (closures)
                                                             \\-> cost (the most that a run can cost)

Nobody imports it before there is an expression to compile.
"""
