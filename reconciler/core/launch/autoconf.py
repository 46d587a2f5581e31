"""The variables `AUTOCONF_*` of a container: what they say wins over the launch line."""

from collections.abc import Mapping, MutableMapping

from reconciler.core.launch.facts import Fact
from reconciler.core.launch.gathering import Gathering
from reconciler.core.launch.shape import from_env

_METHODS = frozenset({"full", "lora", "qlora", "gptq-lora"})
_NUMBERS = {"sequence": "AUTOCONF_TOKENS_PER_SAMPLE", "global_batch": "AUTOCONF_BATCH_SIZE"}
_TEXTS = {"model": "AUTOCONF_MODEL_NAME", "gpu_model": "AUTOCONF_GPU_MODEL"}


def override(
    env: Mapping[str, str | None], gathering: Gathering, defaults: MutableMapping[str, Fact], *, done: bool = False
) -> None:
    """Put what the variables say in place of what the line says. The batch they name is that of all processes.

    Of a job that is `done` only the card counts: the others were written when it was sized, and its line may have
    changed since.
    """
    if done:
        env = {name: value for name, value in env.items() if name == _TEXTS["gpu_model"]}
    for name, variable in _NUMBERS.items():
        if (setting := from_env(env, variable)) is not None:
            _forget(name, gathering, defaults)
            gathering.number(name, setting)
    for name, variable in _TEXTS.items():
        if (setting := from_env(env, variable)) is not None:
            _forget(name, gathering, defaults)
            gathering.text(name, setting)
    if (setting := from_env(env, "AUTOCONF_METHOD")) is not None:
        _forget("method", gathering, defaults)
        found = gathering.known("method", setting)
        if found is not None and found.text in _METHODS:
            gathering.text("method", found)
        elif found is not None:
            gathering.refuse(
                "method", f"AUTOCONF_METHOD={found.text}: one of {', '.join(sorted(_METHODS))} is expected", None
            )
    if "AUTOCONF_BATCH_SIZE" in env:
        _divide(gathering, defaults)


def _forget(name: str, gathering: Gathering, defaults: MutableMapping[str, Fact]) -> None:
    for known in (gathering.facts, gathering.unsure, defaults):
        known.pop(name, None)


def _divide(gathering: Gathering, defaults: MutableMapping[str, Fact]) -> None:
    """Give each process its share of the batch, where their number is known and divides it."""
    _forget("batch", gathering, defaults)
    batch = gathering.facts.get("global_batch")
    processes = gathering.facts.get("processes") or defaults.get("processes")
    if batch is None:
        gathering.unsure["batch"] = gathering.unsure["global_batch"]
    elif processes is not None and int(batch.value) % int(processes.value) == 0:
        share = int(batch.value) // int(processes.value)
        origin = f"env AUTOCONF_BATCH_SIZE over {processes.value} processes"
        gathering.facts["batch"] = Fact(value=str(share), snippet=batch.snippet, origin=origin)
