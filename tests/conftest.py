"""Fixtures for every test: the real parts (an API server, kubectl, the KAI scheduler) live in `tests/cluster`."""

pytest_plugins = ("tests.cluster.fixtures",)
