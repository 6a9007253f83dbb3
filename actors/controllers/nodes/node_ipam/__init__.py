"""node-ipam-controller: gives each node a range of pod addresses."""
