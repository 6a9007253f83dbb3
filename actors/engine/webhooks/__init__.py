"""Webhooks of controllers: configurations, certificates, and the server that every replica runs.

settings.py          where the server listens, how the API server reaches it, lifetimes of certificates
configurations.py    WebhookConfigurations and the conversion of CustomResourceDefinitions, from specs
responses.py         responses to reviews: calls of the functions of authors
patches.py           JSON patches from two states of an object
roundtrips.py        check of conversions for tests
secret.py            the Secret with the certificates
certificates.py      the controller that rotates certificates and writes configurations
server.py            the actor that gives certificates to the server of its process
flags.py             flags of programs with webhooks
"""
