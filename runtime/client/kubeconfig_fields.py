"""Reading a kubeconfig field by field, so that what is missing or of the wrong type is named with file and field."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from kcm.runtime.client.config import ConfigError

TYPE_NAMES = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "a mapping"}


class Fields:
    """One mapping of the file. Absent fields and null read as empty; a wrong type raises ConfigError.

    file: path of the kubeconfig. field: where in it, for people, as in "users[admin].user"; "" for the top.
    """

    def __init__(self, file: str, field: str, value: object) -> None:
        self.file, self.field = file, field
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.where}: expected a mapping, got {_type_name(value)}")
        self._values: Mapping[str, Any] = value

    @property
    def where(self) -> str:
        return f"{self.file}: {self.field}" if self.field else self.file

    def text(self, name: str) -> str:
        return str(self._typed(name, str, ""))

    def flag(self, name: str) -> bool:
        return bool(self._typed(name, bool, False))

    def value(self, name: str) -> Any:
        return self._values.get(name)

    def names(self) -> Sequence[str]:
        return [str(name) for name in self._values]

    def path(self, name: str) -> str:
        """A path, made absolute: a relative one starts at the kubeconfig's directory."""
        text = self.text(name)
        return str(Path(self.file).resolve().parent / text) if text else ""

    def data(self, name: str) -> bytes:
        """What is written in base64."""
        text = "".join(self.text(name).split())
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as err:
            raise ConfigError(f"{self._at(name)}: not base64: {err}") from err

    def texts(self, name: str) -> tuple[str, ...]:
        items = self._list(name)
        for i, item in enumerate(items):
            if not isinstance(item, str):
                raise ConfigError(f"{self._at(name)}[{i}]: expected a string, got {_type_name(item)}")
        return tuple(items)

    def mapping(self, name: str) -> Fields | None:
        value = self._values.get(name)
        return None if value is None else Fields(self.file, self._field(name), value)

    def entries(self, name: str) -> list[Fields]:
        """A list of mappings."""
        return [Fields(self.file, f"{self._field(name)}[{i}]", item) for i, item in enumerate(self._list(name))]

    def named(self, name: str, wanted: str, inner: str, *, asked_by: str) -> Fields:
        """The mapping under `inner` of this list's entry named `wanted`. asked_by: the field that wants it."""
        entries = self.entries(name)
        found = [entry for entry in entries if entry.text("name") == wanted]
        if not found:
            known = ", ".join(sorted(entry.text("name") for entry in entries)) or "none"
            raise ConfigError(f"{self.file}: {asked_by}: no {wanted!r} in {name}; there is: {known}")
        if len(found) > 1:
            raise ConfigError(f"{self.file}: {name}: {wanted!r} is there {len(found)} times")
        value = found[0].value(inner)
        return Fields(self.file, f"{name}[{wanted}].{inner}", {} if value is None else value)

    def empty(self, name: str) -> Fields:
        """Stands for an entry of this list that has no name."""
        return Fields(self.file, name, {})

    def _field(self, name: str) -> str:
        return f"{self.field}.{name}" if self.field else name

    def _at(self, name: str) -> str:
        return f"{self.file}: {self._field(name)}"

    def _typed(self, name: str, wanted: type, absent: object) -> object:
        value = self._values.get(name)
        if value is None:
            return absent
        if not isinstance(value, wanted):
            raise ConfigError(f"{self._at(name)}: expected {TYPE_NAMES[wanted]}, got {_type_name(value)}")
        return value

    def _list(self, name: str) -> list[Any]:
        value = self._typed(name, list, None)
        return value if isinstance(value, list) else []


# The texts of client-go: clientcmd.BuildConfigFromFlags, ErrEmptyConfig.
NOTHING_PROVIDED = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)


def read_fields(path: str) -> Fields:
    """The whole file. Raises ConfigError when it cannot be read or is no YAML mapping."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError as err:
        raise ConfigError(f"stat {path}: no such file or directory") from err
    except OSError as err:
        operation = "read" if isinstance(err, IsADirectoryError) else "open"
        reason = (err.strerror or str(err)).lower()
        raise ConfigError(f'error loading config file "{path}": {operation} {path}: {reason}') from err
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        document = _yaml(path, text)
    if document is None:
        raise ConfigError(NOTHING_PROVIDED)
    return Fields(path, "", document)


def _yaml(path: str, text: bytes) -> object:
    import yaml  # a tenth of a start, which a pod's own account and a kubeconfig in JSON do without

    from kcm.runtime.process.yaml_errors import yaml_complaint

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise ConfigError(yaml_complaint(path, err)) from err


def _type_name(value: object) -> str:
    return "nothing" if value is None else TYPE_NAMES.get(type(value), f"a {type(value).__name__}")
