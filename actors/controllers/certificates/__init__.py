"""Controllers of certificate requests: approver, signer and cleaners."""
