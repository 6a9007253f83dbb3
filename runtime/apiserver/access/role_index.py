"""Index of roles and bindings by subject.

Objects that change, or whose change is undone, are marked and read again before the next lookup.

Source: kubernetes pkg/registry/rbac/validation/rule.go (v1.36). Bindings are visited in the order of their names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from kcm.protocols.objects import Key, Object, decode_object, make_key, name_of, namespace_of, split_key
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.policy_rules import Rule, rules_in
from kcm.runtime.apiserver.registry.users import ACCOUNTS, User
from kcm.runtime.apiserver.storage.state import State

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
WATCHED = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})

_BY_USER, _BY_GROUP = "User:", "Group:"


class Granted(NamedTuple):
    """Rule that applies to a user.

    source: describes the binding, for the authorizer's reason
    """

    source: str
    rule: Rule


class MissingRole(NamedTuple):
    """Role that a binding refers to but that does not exist."""

    kind: str  # "role", "clusterrole"
    name: str

    def __str__(self) -> str:
        return f"{self.kind}.{GROUP} {quoted(self.name)} not found"


class _Binding(NamedTuple):
    """Parsed binding.

    shown: description of the binding
    subjects: for each subject, its key in the index and its description
    """

    shown: str
    role_storage: str
    role_key: Key
    subjects: tuple[tuple[str, str], ...]


class RoleIndex:
    def __init__(self, state: State) -> None:
        self._state = state
        self._bindings: dict[tuple[str, Key], _Binding] = {}
        # By subject and namespace ("" for ClusterRoleBindings).
        self._of_subject: dict[str, dict[str, dict[tuple[str, Key], None]]] = {}
        self._rules: dict[tuple[str, Key], tuple[Rule, ...]] = {}
        self._changed: set[tuple[str, Key]] = {
            (storage, key)
            for storage in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
            for key in state.collection(storage).records
        }

    def note(self, storage: str, key: Key) -> None:
        """Mark an object to be read again because it changed, or its change was undone."""
        self._changed.add((storage, key))

    def refresh(self) -> bool:
        """Read the marked objects again, and report whether there were any."""
        if not self._changed:
            return False
        for changed in self._changed:
            if changed[0] in (ROLES, CLUSTER_ROLES):
                self._rules.pop(changed, None)
            else:
                self._forget(changed)
                record = self._state.get(*changed)
                if record is not None:
                    self._keep(changed, decode_object(record.raw))
        self._changed.clear()
        return True

    def visit(self, user: User, namespace: str) -> Iterator[Granted | MissingRole]:
        """Yield all rules of a user: first from ClusterRoleBindings, then from the namespace's RoleBindings."""
        subjects = _subjects_of(user)
        for where in ("", namespace) if namespace else ("",):
            found = {binding for subject in subjects for binding in self._of_subject.get(subject, {}).get(where, ())}
            for binding in sorted(found):
                yield from self._granted(self._bindings[binding], subjects)

    def bound_in(self, user: User) -> tuple[Container[str], ...]:
        """Return the namespaces with RoleBindings for a user, in one container for each subject that the user matches.

        The containers must not be used after the next `refresh` that returns True.
        """
        found = (self._of_subject.get(subject) for subject in _subjects_of(user))
        return tuple([by_namespace for by_namespace in found if by_namespace and by_namespace.keys() != {""}])

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        """Return the rules of a role, or None if it does not exist.

        kind: "Role" or "ClusterRole"
        namespace: namespace of the binding that refers to the role
        """
        storage, key = _role(kind, name, namespace)
        return self._rules_of(storage, key)

    def _granted(self, binding: _Binding, subjects: Iterable[str]) -> Iterator[Granted | MissingRole]:
        rules = self._rules_of(binding.role_storage, binding.role_key)
        if rules is None:
            kind = "role" if binding.role_storage == ROLES else "clusterrole"
            yield MissingRole(kind, split_key(binding.role_key)[1])
            return
        called = next(shown for subject, shown in binding.subjects if subject in subjects)
        source = f"{binding.shown} to {called}"
        for rule in rules:
            yield Granted(source, rule)

    def _rules_of(self, storage: str, key: Key) -> tuple[Rule, ...] | None:
        found = self._rules.get((storage, key))
        if found is None:
            record = self._state.get(storage, key)
            if record is None:
                return None
            found = self._rules[storage, key] = rules_in(decode_object(record.raw))
        return found

    def _forget(self, place: tuple[str, Key]) -> None:
        binding = self._bindings.pop(place, None)
        namespace = split_key(place[1])[0]
        for subject, _ in () if binding is None else binding.subjects:
            by_namespace = self._of_subject.get(subject, {})
            bound = by_namespace.get(namespace)
            if bound is None:
                continue  # the binding names the subject twice
            bound.pop(place, None)
            if not bound:
                del by_namespace[namespace]
                if not by_namespace:
                    del self._of_subject[subject]

    def _keep(self, place: tuple[str, Key], obj: Object) -> None:
        binding = self._bindings[place] = _read(obj)
        for subject, _ in binding.subjects:
            self._of_subject.setdefault(subject, {}).setdefault(namespace_of(obj), {})[place] = None


def _subjects_of(user: User) -> set[str]:
    """Return the keys in the index of the subjects that a user matches."""
    return {f"{_BY_USER}{user.name}", *(f"{_BY_GROUP}{group}" for group in user.groups)}


def _read(obj: Object) -> _Binding:
    """Parse a binding. Invalid bindings are accepted, because earlier versions stored them without validation."""
    name, namespace, role = name_of(obj), namespace_of(obj), obj.get("roleRef") or {}
    to_kind, to_name = role.get("kind") or "", role.get("name") or ""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    called = f"{name}/{namespace}" if namespace else name
    shown = f"{kind} {quoted(called)} of {to_kind} {quoted(to_name)}"
    subjects = [found for subject in obj.get("subjects") or () if (found := _subject(subject, namespace)) is not None]
    return _Binding(shown, *_role(to_kind, to_name, namespace), tuple(subjects))


def _role(kind: str, name: str, namespace: str) -> tuple[str, Key]:
    return (ROLES, make_key(namespace, name)) if kind == "Role" else (CLUSTER_ROLES, name)


def _subject(subject: Object, namespace: str) -> tuple[str, str] | None:
    """Return the subject's key in the index and its description, or None if the subject cannot name a user."""
    kind, name = subject.get("kind"), subject.get("name") or ""
    if kind == "User":
        return f"{_BY_USER}{name}", f"User {quoted(name)}"
    if kind == "Group":
        return f"{_BY_GROUP}{name}", f"Group {quoted(name)}"
    where = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not where:
        return None
    return f"{_BY_USER}{ACCOUNTS}{where}:{name}", f"ServiceAccount {quoted(f'{name}/{where}')}"
