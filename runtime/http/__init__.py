"""HTTP/1.1 server and client, used by the embedded API server, the manager's pages, webhooks and the API client."""
