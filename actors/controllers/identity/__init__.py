"""Service accounts, their tokens, and the certificates by which clients know the API server."""
