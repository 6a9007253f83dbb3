"""DefaultIngressClass; the contract tests cover claims."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.conftest import Api

GROUP = "/apis/networking.k8s.io/v1"


def made(api: Api, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    """Return the class of a new Ingress."""
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    meta = {"name": name, "annotations": annotations or {}}
    body = {"metadata": meta, "spec": {"defaultBackend": backend, **spec}}
    return api.send("POST", f"{GROUP}/namespaces/default/ingresses", body).obj["spec"].get("ingressClassName")


def test_ingress_without_class_gets_the_newest_default_class(api: Api) -> None:
    assert made(api, "before") is None
    mark = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name in ("b", "a", "newer", "other"):
        if name == "newer":
            api.clock.time += 1.0
        annotations = {} if name == "other" else mark
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"controller": "example.com/c"}}
        assert api.send("POST", f"{GROUP}/ingressclasses", body).status == 201
    assert made(api, "web") == "newer"
    assert made(api, "named", ingressClassName="other") == "other"
    assert made(api, "annotated", {"kubernetes.io/ingress.class": "other"}) is None
    api.send("DELETE", f"{GROUP}/ingressclasses/newer")
    assert made(api, "next") == "a"
