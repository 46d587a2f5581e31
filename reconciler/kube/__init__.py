"""Kubernetes offline and online, usable alone.

In: bytes of YAML, and objects of a live API server. Out: documents with the place of each value, what an API server
would say of them, and its own answers. Read `yaml` first (how Kubernetes reads bytes), then `schemas` (validation as
the API server does it), `cel` (its expressions) and `client`. `secrets` masks what must not be shown; `objects`,
`quantities` and `problems` are the values that all of it shares.
"""
