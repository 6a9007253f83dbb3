"""Names of TLS versions, cipher suites and key exchanges in kube-controller-manager (Go), and their names in OpenSSL.

Source: kubernetes v1.36 component-base/cli/flag (ciphersuites_flag.go, curves_flag.go), Go's crypto/tls.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

MIN_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    # OpenSSL's own policy may still refuse the first two, as Go's does not.
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

# Suites of TLS 1.3 cannot be selected, as in Go: all three are offered.
SUITES_OF_TLS_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
CURVES = {  # Go's CurveID → OpenSSL's name
    23: "prime256v1",
    24: "secp384r1",
    25: "secp521r1",
    29: "X25519",
    4587: "SecP256r1MLKEM768",
    4588: "X25519MLKEM768",
    4589: "SecP384r1MLKEM1024",
}


class TlsError(Exception):
    """The TLS settings cannot be used. The text is one line and names the flag or the file."""


def offer_suites(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Offer only these cipher suites and those of TLS 1.3. Raises TlsError."""
    wanted = []
    for name in names:
        if name in SUITES:
            wanted.append(SUITES[name])
        elif name not in SUITES_OF_TLS_1_3:
            raise TlsError(f"Cipher suite {name} not supported or doesn't exist")
    if not wanted:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(wanted))
        offered = {suite["name"] for suite in context.get_ciphers()}
    except ssl.SSLError:
        offered = set()
    for name in names:  # OpenSSL ignores unknown names
        if name in SUITES and SUITES[name] not in offered:
            raise TlsError(f"--tls-cipher-suites: {ssl.OPENSSL_VERSION} does not offer {name}")


def offer_curves(context: ssl.SSLContext, numbers: Sequence[int]) -> None:
    """Offer only these key exchanges. Raises TlsError.

    Before Python 3.15 a context can offer all of them, or a single one that OpenSSL has a name for.
    """
    for number in numbers:
        if not 0 < number < 1 << 16:
            raise TlsError(f"curve preference {number} is out of range (must be 1-65535)")
        if numbers.count(number) > 1:
            raise TlsError(f"duplicate curve preference {number}")
        if number not in CURVES:
            raise TlsError(f"curve preference {number} is not supported by {ssl.OPENSSL_VERSION}")
    names = [CURVES[number] for number in numbers]
    set_groups = getattr(context, "set_groups", None)
    if set_groups is None and len(names) > 1:
        raise TlsError(
            "--tls-curve-preferences: Python's TLS can offer all key exchanges or a single one before Python 3.15: "
            "give one number, or omit the flag"
        )
    try:
        if set_groups is not None:
            set_groups(":".join(names))
        else:
            context.set_ecdh_curve(names[0])
    except (ValueError, ssl.SSLError) as error:
        asked = ", ".join(map(str, numbers))
        raise TlsError(f"--tls-curve-preferences: {ssl.OPENSSL_VERSION} cannot offer {asked} here") from error
