"""`run-kcm manifests`: manifests of an operator, generated from the specs of its controllers.

command.py    the subcommand
programs.py   specs that "module:ATTRIBUTE" names
schemas.py    structural schemas of models
manifests.py  CustomResourceDefinitions, RBAC, Deployment and webhooks
"""
