"""Fixtures for every test: the real parts (an API server, kubectl, the KAI scheduler) live in `tests/cluster`."""

import signal

from hypothesis import settings

pytest_plugins = ("tests.cluster.fixtures", "tests.live.cluster.fixtures", "tests.live.cluster.fragile")

# A shell starts background jobs with SIGINT ignored, which child processes would inherit: interrupts are tested.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow or busy machine must not fail a test: nothing here asserts how long one example takes.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
