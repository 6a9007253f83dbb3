"""X.509: what certificate signing requests say, and an authority that signs them. Its modules import cryptography."""
