"""HTTP/1.1: the one server and the one client of the project, for the API server, the manager's pages and webhooks."""
