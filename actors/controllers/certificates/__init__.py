"""Controllers of CertificateSigningRequests and PodCertificateRequests: approver, signer and cleaners."""
