"""HTTP server: connections and their limits, requests, responses."""
