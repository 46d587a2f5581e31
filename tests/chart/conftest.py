"""The judges of the chart: the real helm and promtool."""

from pathlib import Path

import pytest

from tests.chart.programs import program
from tests.cluster.parts import HELM, PROMTOOL


@pytest.fixture(scope="session")
def helm() -> Path:
    return program(HELM)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return program(PROMTOOL)
