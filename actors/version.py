"""What release this is, and of which Kubernetes it follows the behaviour."""

VERSION = "0.1.0"
KUBERNETES = "v1.36.2"
