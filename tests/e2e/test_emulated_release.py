"""An embedded cluster that emulates 1.37, the release after the one that kcm is compared with."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.kubectl import Api
from tests.e2e.programs import managing, until

CERTIFICATES = "/apis/certificates.k8s.io"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


def test_apis_and_defaults_of_the_next_release_are_served(tmp_path: Path) -> None:
    place = tmp_path / "kcm"
    flags = (f"--embedded-dir={place}", "--hollow-nodes=0", "--emulated-version=1.37")
    with managing(tmp_path / "kcm.log", *flags) as manager:
        api = Api(place / "kubeconfig")
        version = api.get("/version")
        assert (version["minor"], version["emulationMinor"], version["minCompatibilityMinor"]) == ("36", "37", "36")
        assert [served["version"] for served in api.get(CERTIFICATES)["versions"]] == ["v1"]
        # ClusterTrustBundle and PodCertificateRequest are on by default, and their controllers run.
        (bundle,) = until(lambda: api.get(f"{CERTIFICATES}/v1/clustertrustbundles")["items"], "the bundle is published")
        assert bundle["spec"]["signerName"] == "kubernetes.io/kube-apiserver-serving"
        assert api.get(f"{CERTIFICATES}/v1/podcertificaterequests")["items"] == []
        # So is DeviceTaintRule; the controller reports what the rule evicts.
        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        rule = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}}
        api.request("POST", RULES, rule)
        status = until(lambda: api.get(f"{RULES}/broken").get("status"), "the rule has a condition")
        assert [condition["type"] for condition in status["conditions"]] == ["EvictionInProgress"]
        assert "watch failed" not in manager.program.text()
        assert "Release 1.37 is emulated from its source" in manager.program.text()
