"""X.509: certificate signing requests, authorities that sign them, and kcm's own certificates."""
