"""HTTP client based on libcurl, with persistent connections."""
