"""User actions on bootstrap tokens, and their results, for any cluster with a signer and a cleaner."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import until

INFO, SIGNATURE = "cluster-info", "jws-kubeconfig-"
KUBECONFIG = "apiVersion: v1\nkind: Config\n"
TYPE = "bootstrap.kubernetes.io/token"
Steps = dict[str, Any]


def joined(signature: str, content: str, token: str) -> bool:
    """Report whether the token signed the content, as kubeadm join does. token: "id.secret"."""
    name, _, secret = token.partition(".")
    head = _encoded(json.dumps({"alg": "HS256", "kid": name}, separators=(",", ":")).encode())
    code = hmac.new(secret.encode(), f"{head}.{_encoded(content.encode())}".encode(), hashlib.sha256).digest()
    return signature == f"{head}..{_encoded(code)}"


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


class Tokens:
    def __init__(self, api: Api) -> None:
        self.public, self.system = Kubectl(api, "kube-public"), Kubectl(api, "kube-system")

    def create(self, token: str, **more: str) -> None:
        """Create the Secret of a token. token: "id.secret". more: other data, with _ instead of - in the keys."""
        name, _, secret = token.partition(".")
        data = {"token-id": name, "token-secret": secret, "usage-bootstrap-signing": "true"}
        data |= {field.replace("_", "-"): text for field, text in more.items()}
        literals = (f"--from-literal={field}={text}" for field, text in data.items())
        self.system("create", "secret", "generic", f"bootstrap-token-{name}", f"--type={TYPE}", *literals)

    def change(self, name: str, **data: str) -> None:
        encoded = {field.replace("_", "-"): base64.b64encode(text.encode()).decode() for field, text in data.items()}
        self.system("patch", "secret", f"bootstrap-token-{name}", "-p", json.dumps({"data": encoded}))

    def data(self) -> dict[str, str]:
        data: dict[str, str] = self.public.get("configmaps", INFO)["data"]
        return data

    def signers(self) -> set[str]:
        return {field.removeprefix(SIGNATURE) for field in self.data() if field.startswith(SIGNATURE)}

    def there(self) -> set[str]:
        names = (secret["metadata"]["name"] for secret in self.system.items("secrets"))
        return {name for name in names if name.startswith("bootstrap-token-")}

    def clear(self) -> None:
        self.public("delete", "configmap", INFO, "--ignore-not-found")
        self.system("delete", "secrets", f"--field-selector=type={TYPE}")


def join_and_leave(api: Api) -> Steps:
    """Returns what was seen on the way, equal wherever a signer and a cleaner work."""
    tokens, seen = Tokens(api), {}
    tokens.public("create", "configmap", INFO, f"--from-literal=kubeconfig={KUBECONFIG}", "--from-literal=more=x")
    tokens.public("label", "configmap", INFO, "by=user")
    tokens.create("abcdef.0123456789abcdef")
    tokens.create("silent.0123456789abcdef", usage_bootstrap_signing="false")
    until(lambda: tokens.signers() == {"abcdef"}, "it is signed")
    seen["signed"] = tokens.data()
    assert joined(tokens.data()[f"{SIGNATURE}abcdef"], KUBECONFIG, "abcdef.0123456789abcdef")

    change = json.dumps({"data": {"kubeconfig": "other", f"{SIGNATURE}nobody": "forged"}})
    tokens.public("patch", "configmap", INFO, "-p", change)
    signature = seen["signed"][f"{SIGNATURE}abcdef"]
    until(lambda: tokens.data()[f"{SIGNATURE}abcdef"] != signature, "it is signed again")
    until(lambda: tokens.signers() == {"abcdef"}, "who is nobody has not signed")
    seen["changed"] = tokens.data()
    tokens.change("silent", usage_bootstrap_signing="true")
    tokens.change("abcdef", token_secret="fedcba9876543210")
    until(lambda: "silent" in tokens.signers(), "another has signed")
    until(lambda: tokens.data()[f"{SIGNATURE}abcdef"] != seen["changed"][f"{SIGNATURE}abcdef"], "with another secret")
    seen["two"] = tokens.data()

    expires = int(time.time()) + 4
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    tokens.create("expire.0123456789abcdef", expiration=expiry)
    tokens.create("badly1.0123456789abcdef", expiration="tomorrow")
    until(lambda: "bootstrap-token-badly1" not in tokens.there(), "whose time is none is gone")
    until(lambda: "expire" in tokens.signers(), "it has signed as long as it lives")
    seen["three"] = sorted(tokens.signers())
    until(lambda: "bootstrap-token-expire" not in tokens.there(), "it has expired")
    assert time.time() >= expires, "not before its time"
    until(lambda: tokens.signers() == {"abcdef", "silent"}, "and signs no more")
    tokens.system("delete", "secret", "bootstrap-token-silent")
    until(lambda: tokens.signers() == {"abcdef"}, "nor does who was deleted")
    seen["left"] = (tokens.data(), sorted(tokens.there()), tokens.public.get("configmaps", INFO)["metadata"]["labels"])
    return seen
