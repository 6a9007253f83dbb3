"""Keys from files, and the tokens that they sign. Needs `cryptography`, which it imports late."""
