"""Bearer tokens of the server's own users, and the kubeconfigs that contain them."""

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


def ensure_token(path: Path) -> str:
    """Return the token in a file, which is created with a random token if it is missing. Raises OSError."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(path, token.encode())
    return token


class KubeconfigUnreadableError(Exception):
    """Invalid kubeconfig. The text is the reason."""


def update_kubeconfig(path: Path, *, url: str, authority: bytes, token: str) -> None:
    """Update the cluster, user and context "kcm" of a kubeconfig, or create the file.

    All other entries are kept, also namespaces, contexts and a current context that were set with `kubectl config`.

    url: address of the server
    authority: PEM of the CA that signed the server's certificate
    token: bearer token of the user

    Raises KubeconfigUnreadableError and OSError.
    """
    before = _read(path)
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", **copy.deepcopy(before)}
    ca = base64.b64encode(authority).decode()
    _entry(config, "clusters", "cluster").update({"server": url, "certificate-authority-data": ca})
    _entry(config, "users", "user").update({"token": token})
    _entry(config, "contexts", "context").update({"cluster": CONTEXT, "user": CONTEXT})
    names = [entry.get("name") for entry in config["contexts"]]
    if config.get("current-context") not in names:
        config["current-context"] = CONTEXT
    if config != before:  # an unchanged file keeps its comments
        write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def last_port(path: Path) -> int:
    """Return the server's port in the cluster "kcm" of a kubeconfig; 0 if it is missing or unreadable."""
    try:
        text = _entry(_read(path), "clusters", "cluster").get("server")
        return urlsplit(text).port or 0 if isinstance(text, str) else 0
    except (KubeconfigUnreadableError, OSError, ValueError):
        return 0


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a kubeconfig; {} if the file is missing.

    Only the fields that update_kubeconfig changes are validated. Raises KubeconfigUnreadableError and OSError.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as err:
        raise KubeconfigUnreadableError(" ".join(str(err).split())) from err
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise KubeconfigUnreadableError("content is not a map")
    for field in ("clusters", "users", "contexts"):
        entries = config.get(field) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise KubeconfigUnreadableError(f"{field} is not a list of maps")
    return config


def _entry(config: dict[str, Any], field: str, content: str) -> dict[str, Any]:
    """Return the mutable content of the entry "kcm" in a list of a kubeconfig, which is added if it is missing.

    field: name of the list: clusters, users or contexts
    content: field of the entry: cluster, user or context
    """
    entries = config[field] = config.get(field) or []
    entry = next((entry for entry in entries if entry.get("name") == CONTEXT), None)
    if entry is None:
        entry = {"name": CONTEXT}
        entries.append(entry)
    if not isinstance(entry.get(content), dict):
        entry[content] = {}
    found: dict[str, Any] = entry[content]
    return found
