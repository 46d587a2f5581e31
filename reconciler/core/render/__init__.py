"""Intents in, manifests out: stable objects, each value with its reason."""
