"""The HTTP client: requests over connections that libcurl makes and keeps."""
