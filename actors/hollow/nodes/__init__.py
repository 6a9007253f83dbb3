"""The hollow nodes: which there are, their objects and heartbeats, and the addresses of their pods."""
