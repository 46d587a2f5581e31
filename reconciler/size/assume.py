"""What a launch line leaves open, and what is assumed instead: the answer names each assumption and has a wider band.

Assumptions are the variables `AUTOCONF_*` by which a job states the same facts, so that a line with them is read as any
other. A line with an unknown script states most facts by flags with usual names.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.launch import Diagnostic, Launch, Span
from reconciler.launch.launch import UnreadSetting
from reconciler.sizing.models import ModelTable

SEQUENCE = "AUTOCONF_TOKENS_PER_SAMPLE"
_MODEL, _BATCH, _METHOD = "AUTOCONF_MODEL_NAME", "AUTOCONF_BATCH_SIZE", "AUTOCONF_METHOD"
_TOKENS = 2048
"""Tokens of a sample where the data decides: the default of `size ask`."""
LENGTHS = (1024, 2048, 4096, 8192, 16_384)
"""Tokens of a sample for which the answer shows the number of GPUs, if the line leaves them to the data."""
_MAX_DIGITS = 9
_USUAL = {
    "model": ("model", "model_name", "model_id", "model_path", "base_model", "pretrained_model", "pretrained"),
    "sequence": ("seq_len", "seq_length", "sequence_length", "max_length", "max_len", "block_size", "context_length"),
    "batch": ("batch_size", "micro_batch_size", "train_batch_size", "per_gpu_batch_size", "bs"),
}
"""Names of flags by which scripts of no known framework state a fact."""


class Assumptions(Struct, frozen=True, kw_only=True):
    """Values that a line does not state: `variables` state them, `texts` say what is assumed, `used` are its flags."""

    variables: Mapping[str, str] = {}
    texts: tuple[str, ...] = ()
    used: frozenset[Span | None] = frozenset()


class _Assumed(Struct, frozen=True, kw_only=True):
    variable: str
    value: str
    text: str
    setting: UnreadSetting | None = None


def assume(
    launch: Launch, diagnostics: Sequence[Diagnostic], models: ModelTable, gpus: int | None
) -> Assumptions | None:
    """Return what to assume for the facts that are missing; None if one of them cannot be, or if more is wrong."""
    facts = tuple(dict.fromkeys(diagnostic.missing for diagnostic in diagnostics))
    found = [_ASSUMED[fact](launch, models, gpus) if fact in _ASSUMED else None for fact in facts]
    assumed = [one for one in found if one is not None]
    if len(assumed) < len(facts):
        return None
    return Assumptions(
        variables={one.variable: one.value for one in assumed},
        texts=tuple(one.text for one in assumed),
        used=frozenset(one.setting.fact.span for one in assumed if one.setting is not None),
    )


def _model(launch: Launch, models: ModelTable, _: int | None) -> _Assumed | None:
    for setting in _usual(launch, "model"):
        if models.find(setting.text) is not None:
            text = f"`{_written(setting)}` names the model"
            return _Assumed(variable=_MODEL, value=setting.text, text=text, setting=setting)
    return None


def _sequence(launch: Launch, _: ModelTable, __: int | None) -> _Assumed:
    for setting in _usual(launch, "sequence"):
        if _is_number(setting.text):
            text = f"`{_written(setting)}` is the number of tokens of a sample"
            return _Assumed(variable=SEQUENCE, value=setting.text, text=text, setting=setting)
    text = f"a sample has {_TOKENS:,} tokens, because the line leaves its length to the data"
    return _Assumed(variable=SEQUENCE, value=str(_TOKENS), text=text)


def _batch(launch: Launch, _: ModelTable, gpus: int | None) -> _Assumed:
    stated = launch.fact("processes")
    processes = int(stated.value) if stated is not None else gpus or 1  # the variable is the batch of all processes
    for setting in _usual(launch, "batch"):
        if _is_number(setting.text):
            text = f"`{_written(setting)}` is the batch of each GPU"
            return _Assumed(variable=_BATCH, value=str(int(setting.text) * processes), text=text, setting=setting)
    return _Assumed(variable=_BATCH, value=str(processes), text="each GPU has a batch of 1, because no flag sets it")


def _method(launch: Launch, _: ModelTable, __: int | None) -> _Assumed:
    script = launch.line.invocation.name.rpartition("/")[2]
    method = "qlora" if any(word in script.lower() for word in ("qlora", "4bit")) else "lora"
    return _Assumed(variable=_METHOD, value=method, text=f"the method is {method}, as the name of `{script}` says")


_ASSUMED = {"model": _model, "sequence": _sequence, "batch": _batch, "method": _method}


def _usual(launch: Launch, fact: str) -> Iterator[UnreadSetting]:
    """Yield the settings that nothing read and whose names usually state a fact."""
    return (one for one in launch.unread if one.name.replace("-", "_") in _USUAL[fact])


def _written(setting: UnreadSetting) -> str:
    """Return a flag with its value as it stands on the line."""
    flag, _, rest = setting.fact.snippet.partition(" ")
    return flag if "=" in flag or not rest else f"{flag} {setting.text}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0
