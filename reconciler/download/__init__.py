"""Downloads of data and models to a volume: `reconciler download CONFIG`.

In: a configuration file (`config`) and mounted secrets. Out: files below a mount, each complete and verified, a record
of where they came from (`ledger`), and a marker file once everything is there. A run fetches only what is missing or
has changed. Reading order: `config`, `items`, `run`, `transfer`, `confined`, then one of `sources/`.

Knows nothing of repositories and plans.
"""
