"""Compiled files, their findings and object summaries, and the store that remembers them."""
