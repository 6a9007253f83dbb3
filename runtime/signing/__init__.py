"""Keys, certificates and signed tokens, as PEM files and as text. Needs `cryptography`, which it imports late."""
