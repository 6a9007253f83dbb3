"""Bootstrap objects, which the server creates at startup as kube-apiserver does."""
