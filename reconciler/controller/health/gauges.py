"""`FleetGauges`: what the last rounds of all sources counted, shown whenever somebody asks."""

import threading
from collections.abc import Collection

from reconciler.controller.metrics import Metrics
from reconciler.controller.outcome import PassOutcome
from reconciler.core.health.exports.fleet_gauges import FleetSamples, samples_at
from reconciler.ports.clock import Clock


class FleetGauges:
    """The samples of each cluster of each source. Safe to use from any thread."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._samples: dict[str, dict[str, FleetSamples]] = {}
        self._lock = threading.Lock()

    def take(self, source: str, outcome: PassOutcome) -> None:
        """Keep what a round counted. Of clusters that a failed round did not see the last samples stay."""
        with self._lock:
            before = self._samples.get(source, {}) if outcome.failure is not None else {}
            self._samples[source] = before | outcome.gauges

    def keep(self, sources: Collection[str]) -> None:
        """Forget all other sources: another replica works on them, or nobody does."""
        with self._lock:
            self._samples = {source: fleets for source, fleets in self._samples.items() if source in sources}

    def update(self) -> None:
        """Set the gauges to this moment: reports grow older, also while rounds fail."""
        with self._lock:
            fleets = [fleet for known in self._samples.values() for fleet in known.values()]
        for name, samples in samples_at(fleets, self._clock.now().timestamp()).items():
            self._metrics.replace(name, samples)
