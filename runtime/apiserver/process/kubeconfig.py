"""The admin's token, and the kubeconfig that holds it."""

from __future__ import annotations

import base64
import copy
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kcm.runtime.apiserver.process.launch import CONTEXT
from kcm.runtime.process.files import write_private


def admin_token(path: Path) -> str:
    """Returns the token in the file, which it creates on first use. Raises OSError."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(path, token.encode())
    return token


class KubeconfigUnreadableError(Exception):
    """Invalid kubeconfig; the text is the reason."""


def update_kubeconfig(path: Path, *, url: str, authority: bytes, token: str) -> None:
    """Let our cluster, user and context in the file lead to this server. All else that is in it is kept: namespaces,
    contexts and a choice of context that people have put there with `kubectl config`.

    authority: PEM of the CA that signed the server's certificate. Raises KubeconfigUnreadableError, and OSError.
    """
    before = _read(path)
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", **copy.deepcopy(before)}
    ca = base64.b64encode(authority).decode()
    _named(config, "clusters", "cluster").update({"server": url, "certificate-authority-data": ca})
    _named(config, "users", "user").update({"token": token})
    _named(config, "contexts", "context").update({"cluster": CONTEXT, "user": CONTEXT})
    names = [entry.get("name") for entry in config["contexts"]]
    if config.get("current-context") not in names:
        config["current-context"] = CONTEXT
    if config != before:  # else its comments are kept, too
        write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def last_port(path: Path) -> int:
    """Return the port of the embedded cluster in this kubeconfig, 0 if the file contains none."""
    try:
        text = _named(_read(path), "clusters", "cluster").get("server")
        return urlsplit(text).port or 0 if isinstance(text, str) else 0
    except (KubeconfigUnreadableError, OSError, ValueError):
        return 0


def _read(path: Path) -> dict[str, Any]:
    """Checked as far as it is changed here. Raises KubeconfigUnreadableError, and OSError."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as err:
        raise KubeconfigUnreadableError(" ".join(str(err).split())) from err
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise KubeconfigUnreadableError("it is no map")
    for field in ("clusters", "users", "contexts"):
        entries = config.get(field) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise KubeconfigUnreadableError(f"{field} is no list of maps")
    return config


def _named(config: dict[str, Any], field: str, inside: str) -> dict[str, Any]:
    """Our entry of one of the lists, to be changed; it is put there if it is missing."""
    entries = config[field] = config.get(field) or []
    entry = next((entry for entry in entries if entry.get("name") == CONTEXT), None)
    if entry is None:
        entry = {"name": CONTEXT}
        entries.append(entry)
    if not isinstance(entry.get(inside), dict):
        entry[inside] = {}
    found: dict[str, Any] = entry[inside]
    return found
