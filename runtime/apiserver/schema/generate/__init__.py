"""Makes api_types.json, the facts about the API's types: `python -m kcm.runtime.apiserver.schema.generate --help`."""
