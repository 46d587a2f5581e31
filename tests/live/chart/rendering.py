"""The chart as objects: what helm renders from values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.chart.build import template


class Chart:
    """Renders the chart with values."""

    def __init__(self, helm: Path) -> None:
        self._helm = helm

    def __call__(self, values: Mapping[str, Any], *, release: str = "reconciler") -> list[dict[str, Any]]:
        return [body for body in yaml.safe_load_all(template(self._helm, values, release=release)) if body]
