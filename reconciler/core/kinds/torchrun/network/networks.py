"""`Network`: what the pods of a job need for the network that the job takes from its queue.

A queue names a preset in `network`, or defines networks in `networks`, each on its own or on top of a preset. A job
takes one of them by its name. A job on one node needs none.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.kinds.rendered import place, problem_at
from reconciler.core.kinds.torchrun.intent.job import TorchrunJob
from reconciler.core.kinds.torchrun.intent.queue import TorchrunQueue
from reconciler.core.kinds.torchrun.intent.sections import NetworkSection
from reconciler.core.kinds.torchrun.network.presets import PRESETS, Preset
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Reason, Traced
from reconciler.core.values import plural

NO_NETWORK = "none"
_NOTHING = Preset(name="", title="", source="")


class Network(Struct, frozen=True, kw_only=True):
    """A network that was chosen: the values of the queue's own section are over those of the preset."""

    chosen: Traced
    preset: Preset = _NOTHING
    section: NetworkSection | None = None

    @property
    def name(self) -> str:
        """Name of the network, as the job or its queue writes it."""
        name: str = self.chosen.value
        return name

    def traced(self, value: Any) -> Traced:
        """Return a value of the preset with its source."""
        text = f"network {self.name}: {self.preset.title} ({self.preset.source})"
        return Traced(value, Reason(rule="torchrun.network", text=text, origins=self.chosen.reason.origins))

    @property
    def env(self) -> Mapping[str, Traced]:
        """Variables by name."""
        own = {item.value.get("name"): item for item in self.section.env} if self.section else {}
        preset = {name: self.traced({"name": name, "value": value}) for name, value in self.preset.env.items()}
        return {**preset, **{str(name): item for name, item in own.items()}}

    @property
    def annotations(self) -> Mapping[str, Traced]:
        """Annotations of the pods, such as the networks that Multus attaches."""
        own = dict(self.section.annotations) if self.section else {}
        return {key: self.traced(value) for key, value in self.preset.annotations.items()} | own

    @property
    def resource_names(self) -> tuple[str, ...]:
        """Resources that the pods request."""
        own = [key for key, _ in self.section.resources] if self.section else []
        return tuple(dict.fromkeys([*self.preset.per_node, *self.preset.per_pod, *own]))

    def resources(self, gpus: int, whole: int | None, problems: list[Problem]) -> Mapping[str, Traced]:
        """Return the amounts for a pod with `gpus` of the `whole` GPUs of its node (None: the whole node)."""
        amounts = {key: self.traced(value) for key, value in self.preset.per_pod.items()}
        for key, count in self.preset.per_node.items():
            share, rest = divmod(count * gpus, whole) if whole and gpus else (count, 0)
            if rest or not share:
                message = f"{count} {key} of a node cannot be shared: a pod has {gpus} of {plural(whole or 0, 'GPU')}"
                hint = "use whole nodes, or set the amount for a pod in `resources` of the network"
                problems.append(problem_at(self.chosen, "torchrun.network", message, hint))
            amounts[key] = self.traced(share)
        return amounts | (dict(self.section.resources) if self.section else {})

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Capabilities of the trainer."""
        own: list[str] = self.section.capabilities.value if self.section and self.section.capabilities else []
        return tuple(dict.fromkeys([*self.preset.capabilities, *own]))

    def security(self, written: Traced | None) -> dict[str, Any] | None:
        """Return the security context of the trainer, with what the network adds to what is written."""
        before: dict[str, Any] = dict(written.value) if written else {}
        if self.capabilities:
            known = before.get("capabilities")
            known = known if isinstance(known, dict) else {}
            added = known.get("add") if isinstance(known.get("add"), list) else []
            every = [*dict.fromkeys([*(added or []), *self.capabilities])]
            before["capabilities"] = self.traced({**known, "add": every})
        if self.preset.privileged:
            before["privileged"] = self.traced(value=True)
        return before or None


def find_network(job: TorchrunJob, queue: TorchrunQueue, problems: list[Problem]) -> Network | None:
    """Return the network that a job takes; None for none, or with a problem for one that its queue does not have."""
    chosen = job.network or queue.network
    if chosen is None or chosen.value == NO_NETWORK:
        return None
    known = {network.name: network for network in networks_of(queue)}
    if chosen.value not in known:
        hint = _near(chosen.value, tuple(known)) or f"networks of the queue: {', '.join(known) or 'none'}"
        message = f"network {chosen.value!r} is not in queue {queue.name}"
        problems.append(problem_at(chosen, "torchrun.network-unknown", message, hint))
        return None
    found = known[chosen.value]
    return Network(chosen=chosen, preset=found.preset, section=found.section)


def networks_of(queue: TorchrunQueue) -> Iterator[Network]:
    """Yield the networks that jobs of a queue may take."""
    names = set()
    for section in queue.networks:
        names.add(section.name.value)
        preset = section.preset or section.name
        yield Network(chosen=section.name, preset=PRESETS.get(preset.value, _NOTHING), section=section)
    if queue.network and queue.network.value in PRESETS and queue.network.value not in names:
        yield Network(chosen=queue.network, preset=PRESETS[queue.network.value])


def check_networks(queue: TorchrunQueue) -> Iterator[Problem]:
    """Yield presets that do not exist."""
    names = [section.name.value for section in queue.networks]
    for preset in (section.preset for section in queue.networks if section.preset):
        if preset.value not in PRESETS:
            yield _unknown_preset(preset, tuple(PRESETS))
    if queue.network and queue.network.value not in (*names, *PRESETS, NO_NETWORK):
        yield _unknown_preset(queue.network, (*names, *PRESETS))


def _unknown_preset(value: Traced, known: tuple[str, ...]) -> Problem:
    hint = _near(value.value, known) or f"known: {', '.join(known)}"
    return problem_at(value, "torchrun.network-unknown", f"unknown network preset {value.value!r}", hint)


def _near(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to a problem

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def conflicts(network: Network, given: Mapping[str, Traced], what: str) -> Iterator[Problem]:
    """Yield warnings about values of a job or queue that replace those of its network, or turn it off."""
    ours = network.env if what == "variable" else network.annotations
    for name, item in given.items():
        value = item.value.get("value") if what == "variable" else item.value
        wanted = ours.get(name)
        if wanted is not None and wanted is not item and wanted.value not in (item.value, value):
            wish = wanted.value.get("value") if what == "variable" else wanted.value
            message = f"{what} {name} replaces {wish!r} of network {network.name} at {place(network.chosen)}"
            hint = f"remove it, or set it in `networks` of the queue, with `preset: {network.preset.name or '…'}`"
            yield problem_at(item, "torchrun.network-conflict", message, hint, severity=Severity.WARNING)
        if what == "variable" and network.preset.off.get(name) == value and value is not None:
            message = f"{name}={value} turns off network {network.name}, which the job takes at {place(network.chosen)}"
            hint = "remove the variable, or set `network: none` in the job"
            yield problem_at(item, "torchrun.network-conflict", message, hint, severity=Severity.WARNING)
