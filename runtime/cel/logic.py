"""Operators that evaluate only the operands they need, and can have a value although an operand fails.

Source: cel-go interpreter/interpretable.go (evalOr, evalAnd), attributes.go (conditionalAttribute); cel/library.go
(optional types).
"""

from __future__ import annotations

from kcm.runtime.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kcm.runtime.cel.frame import Closure, Frame
from kcm.runtime.cel.values import Optional, Value


def junction(closures: list[Closure], *, decisive: bool) -> Closure:
    """Return the closure of a logical or (decisive: True) or and (decisive: False).

    A decisive operand determines the result, even if other operands fail.
    """

    def junction(frame: Frame) -> Value:
        failed: EvaluationError | None = None
        for each in closures:
            try:
                value = each(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failed = failed or EvaluationError(NO_SUCH_OVERLOAD)
        if failed is not None:
            raise failed
        return not decisive

    return junction


def conditional(condition: Closure, then: Closure, otherwise: Closure) -> Closure:
    def conditional(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise EvaluationError(NO_SUCH_OVERLOAD)

    return conditional


def alternative(optional: Closure, otherwise: Closure, *, unwrap: bool) -> Closure:
    def alternative(frame: Frame) -> Value:
        value = optional(frame)
        if type(value) is not Optional:
            return value
        if value.present:
            return value.value if unwrap else value
        return otherwise(frame)

    return alternative


def not_strictly_false(closure: Closure) -> Closure:
    def not_false(frame: Frame) -> Value:
        try:
            return closure(frame) is not False
        except EvaluationError:
            return True

    return not_false
