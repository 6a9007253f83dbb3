"""Webhooks of controllers: configurations, certificates, and the server that every replica runs.

settings.py          where the server listens, how the API server reaches it, lifetimes of certificates
configurations.py    WebhookConfigurations and the conversion of CustomResourceDefinitions, from specs
"""
