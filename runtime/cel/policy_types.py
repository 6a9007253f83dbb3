"""Type checks of a ValidatingAdmissionPolicy's expressions against the OpenAPI schemas of the kinds that it matches.

    document = orjson.loads(response_body)                    # of /openapi/v3/apis/apps/v1
    types = (declared_kind(document, CheckedKind("apps", "v1", "Deployment"), "Deployment1"), ...)
    warnings = expression_warnings(policy["spec"], types)

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go, pkg/cel/openapi/resolver/{discovery,
refs}.go, pkg/admission/plugin/cel/composition.go (v1.36). Difference: upstream adds the current nanosecond to the names
of struct types, which some warnings contain; here the caller chooses the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.runtime.cel import types
from kcm.runtime.cel.admission import VARIABLES, admission_environment
from kcm.runtime.cel.declarations import Environment
from kcm.runtime.cel.declared import Declared, Schema, declared
from kcm.runtime.cel.errors import CompileError
from kcm.runtime.cel.language import checked
from kcm.runtime.cel.types import Type

REFERENCE = "#/components/schemas/"
KINDS = "x-kubernetes-group-version-kind"
INT_OR_STRING = "x-kubernetes-int-or-string"
PLACEHOLDER: Schema = {"type": "object"}  # in place of a type that contains itself
_FIELDS = ("object", "oldObject")


class CheckedKind(NamedTuple):
    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Return the form in warnings: "apps/v1, Kind=Deployment"; the core group is "/v1"."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


class DeclaredKind(Struct, frozen=True):
    """A kind with the declaration of its objects; None if its schema is untyped, so that every field is allowed."""

    kind: CheckedKind
    declaration: Declared | None


class ExpressionWarning(NamedTuple):
    """Entry of status.typeChecking.expressionWarnings."""

    field_ref: str
    warning: str


def declared_kind(document: Mapping[str, Any], kind: CheckedKind, name: str) -> DeclaredKind | None:
    """Return the declaration of a kind from the OpenAPI v3 document of its group version; None if it is not there.

    name: of the struct type in error texts.
    """
    schemas = (document.get("components") or {}).get("schemas") or {}
    wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    for schema_name, schema in schemas.items():
        if wanted in (schema.get(KINDS) or ()):
            whole = _populated(schemas, schema, frozenset((schema_name,)))
            found = None if whole is None else declared(whole, root=True, name=name)
            return None if whole is None else DeclaredKind(kind, found)
    return None


def _populated(schemas: Mapping[str, Schema], schema: Schema, visited: frozenset[str]) -> Schema | None:
    """Replace all references in a schema by the schemas that they refer to; None if a schema is missing.

    visited: names of the schemas that contain this one.
    """
    name = _reference(schema)
    if name is not None:
        if name in visited:
            return PLACEHOLDER
        if name not in schemas:
            return None
        visited |= {name}
        schema = schemas[name]
    made = dict(schema)
    if schema.get("format") == "int-or-string":
        made[INT_OR_STRING] = True  # schemas of CustomResourceDefinitions have the extension, built-in ones the format
    children: list[Schema | None] = []
    if isinstance(properties := schema.get("properties"), Mapping):
        made["properties"] = {field: _populated(schemas, inner, visited) for field, inner in properties.items()}
        children += made["properties"].values()
    for field in ("additionalProperties", "items"):
        if isinstance(inner := schema.get(field), Mapping):
            made[field] = _populated(schemas, inner, visited)
            children.append(made[field])
    return None if None in children else made


def _reference(schema: Schema) -> str | None:
    """Return the name of the schema that a schema refers to. A reference with a description is wrapped in allOf."""
    if isinstance(target := schema.get("$ref"), str):
        return target.removeprefix(REFERENCE)
    found = (_reference(part) for part in schema.get("allOf") or ())
    return next((name for name in found if name is not None), None)


def expression_warnings(
    spec: Mapping[str, Any], kinds: Sequence[DeclaredKind], params: Declared | None = None, *, has_params: bool
) -> list[ExpressionWarning]:
    """Check the validations and message expressions of a policy for each kind that it matches.

    spec: of the policy.
    params: declaration of the parameters; None if their schema is unknown, so that every field is allowed.
    has_params: whether expressions may use the variable `params`.

    Source: TypeChecker.Check.
    """
    environments = [
        (str(kind.kind), _with_variables(_environment(kind.declaration, params, has_params=has_params), spec))
        for kind in kinds
    ]
    warnings: list[ExpressionWarning] = []
    for place, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field) or ""
            if field == "expression" or text:
                issues = [*_issues(text, environments)]
                if issues:
                    warnings.append(ExpressionWarning(f"spec.validations[{place}].{field}", "\n".join(issues)))
    return warnings


def _issues(text: str, environments: Iterable[tuple[str, Environment]]) -> Iterable[str]:
    for kind, environment in environments:
        try:
            checked(text, environment)
        except CompileError as error:
            yield f"{kind}: {error}\n"


def _environment(declaration: Declared | None, params: Declared | None, *, has_params: bool) -> Environment:
    """Return the environment of a policy's expressions for one kind.

    The variable authorizer.requestResource, which admission has, is missing here, as upstream.
    """
    base = admission_environment(params=has_params, authorizer=True)
    names = {name: kind for name, kind in base.variables.items() if name != "authorizer.requestResource"}
    structs = dict(base.structs)
    if declaration is not None:
        names.update(dict.fromkeys(_FIELDS, declaration.type))
        structs.update(declaration.structs())
    if params is not None and has_params:
        names["params"] = params.type
        structs.update(params.structs())
    return Environment(base.functions, names, structs, base.checks, base.type_names)


def _with_variables(environment: Environment, spec: Mapping[str, Any]) -> Environment:
    """Return the environment with the variables of the policy. An invalid variable may have any value."""
    fields: dict[str, Type] = {}
    found = environment.extended({"variables": types.struct(VARIABLES)}, {VARIABLES: fields})
    for variable in spec.get("variables") or ():
        try:
            kind = checked(variable.get("expression") or "", found)[1]
        except CompileError:
            kind = types.DYN
        fields[variable.get("name") or ""] = composed_type(kind)
    return found


def composed_type(kind: Type) -> Type:
    """Return the type that a policy's variable has in later expressions: structs and opaque values become dynamic.

    Source: convertCelTypeToDeclType.
    """
    match kind.kind:
        case "list":
            return types.list_of(composed_type(kind.params[0]))
        case "map":
            return types.map_of(composed_type(kind.params[0]), composed_type(kind.params[1]))
        case "any" | "bool" | "bytes" | "double" | "duration" | "int" | "null" | "string" | "timestamp" | "uint":
            return kind
    return types.DYN
