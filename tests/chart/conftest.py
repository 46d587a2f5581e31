"""The judges of the chart: the real helm and promtool."""

from pathlib import Path

import pytest

from tests.cluster.fixtures import Parts
from tests.cluster.parts import HELM, PROMTOOL


@pytest.fixture(scope="session")
def helm(parts: Parts) -> Path:
    return parts.program(HELM)


@pytest.fixture(scope="session")
def promtool(parts: Parts) -> Path:
    return parts.program(PROMTOOL)
