"""Signing keys in files, and tokens signed with them. Needs `cryptography`, which is imported at its first use."""
