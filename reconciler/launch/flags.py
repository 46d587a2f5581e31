"""The effects on memory of flags that no reader understood: none, a known one, or an unknown one.

The table (`data/flags.json`) lists all flags of each framework, as its own argument definitions do; `tools/flags` makes
it. A flag that changes memory and was not read refuses the job or widens its band, so that no flag is ignored.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec import Struct

from reconciler.kube.values import plural
from reconciler.launch.facts import Diagnostic
from reconciler.launch.launch import Launch, UnreadSetting

_NONE = "none"
_UNKNOWN = "unknown"
_READ = "read"
_DEEPSPEED = "deepspeed"
_MAX_NAMED = 4
_COMPARE = "compare the recommendation with a measured run"
_HINT = "remove the flag, exclude the job from sizing, or set its number of GPUs yourself"


class FlagEffect(Struct, frozen=True):
    """The effect of a flag on memory: `text`, as a predicate. Values that match `neutral` do nothing.

    `action` is `refuse` or `widen`. `batches`: up to so many times the training batch, the value does nothing.
    """

    action: str
    neutral: str
    text: str
    batches: int = 0


class _FlagSet(Struct, frozen=True):
    memory: dict[str, str]
    none: str
    unknown: str


class _FlagFile(Struct, frozen=True):
    effects: dict[str, FlagEffect]
    sets: dict[str, _FlagSet]
    frameworks: dict[str, list[str]]


_OWN_FLAG = FlagEffect("refuse", "|false|none|null|no|0", "may change memory, but its effect is unknown")
_SOUNDS_LARGE = re.compile(
    r"(?:^|_)(?:lora|peft|adapters?|quant\w*|\w*[48]bit\w*|fp8|offload|zero|shard\w*|parallel|freeze|checkpointing$|galore"
    r"|ckpt|optim\w*|tune|trainable|frozen|unfreeze)(?:_|$)"
)
"""Names of flags of unknown scripts that are not taken for harmless."""


class FlagTable:
    """The flags of the frameworks by their effect. `raw` is the content of `data/flags.json`."""

    def __init__(self, raw: bytes) -> None:
        table = msgspec.json.decode(raw, type=_FlagFile)
        self.effects = table.effects
        self._frameworks = table.frameworks
        self._sets = {name: _by_flag(flags) for name, flags in table.sets.items()}

    @cached_property
    def _all(self) -> dict[str, str]:
        """The flags of all frameworks, for scripts of our users: an effect on memory in one of them counts."""
        merged: dict[str, str] = {}
        for flags in self._sets.values():
            for flag, effect in flags.items():
                if merged.get(flag, _UNKNOWN) in {_NONE, _UNKNOWN} and effect != _UNKNOWN:
                    merged[flag] = effect
        return merged

    def effect(self, owner: str, flag: str) -> str:
        """Return the name of a flag's effect, `none`, or `unknown`.

        `owner` is a framework or a launcher. A key within a mapping (`fsdp_config.offload_params`) is looked up as a
        whole, by its last part, and by the mapping. A flag that the owner does not define has the effect that it has
        elsewhere.
        """
        own = [self._sets[name] for name in self._frameworks.get(owner, (owner,)) if name in self._sets]
        parts = flag.split(".")
        names = [flag, flag.removeprefix("no_")]  # HfArgumentParser adds the negation of switches that are on
        names += [] if parts[0] == _DEEPSPEED else parts[-1:]
        mappings = [".".join(parts[:count]) for count in range(len(parts) - 1, parts[0] == _DEEPSPEED, -1)]
        effect = _find(own or [self._all], names)
        if effect == _UNKNOWN:
            effect = _find([self._all], names)
        return _find(own or [self._all], mappings) if effect == _UNKNOWN else effect


def _find(sets: Sequence[Mapping[str, str]], names: Sequence[str]) -> str:
    return next((flags[name] for name in names for flags in sets if name in flags), _UNKNOWN)


def _by_flag(flags: _FlagSet) -> dict[str, str]:
    table = dict.fromkeys(flags.none.split(), _NONE) | dict.fromkeys(flags.unknown.split(), _UNKNOWN)
    for effect, names in flags.memory.items():
        table |= dict.fromkeys(names.split(), effect)
    return table


class FlagReview(Struct, frozen=True):
    """The reasons to refuse a line, and the warnings about flags that only widen the band."""

    refused: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def review_flags(launch: Launch, table: FlagTable) -> FlagReview:
    """Judge the settings that no reader understood, and scripts of which nothing is known."""
    refused: list[Diagnostic] = []
    warnings = list(launch.uncertain)
    unknown: list[UnreadSetting] = []
    for setting in launch.unread:
        owner = _DEEPSPEED if setting.name.startswith("deepspeed.") else setting.owner
        effect = table.effects.get(name := table.effect(owner, setting.name))
        if name in {_UNKNOWN, _READ} and not launch.framework.is_known and _SOUNDS_LARGE.search(setting.name):
            effect = _OWN_FLAG
        if effect is None:
            unknown += [setting] if name == _UNKNOWN else []
        elif not _is_neutral(effect, setting.text, launch):
            widens = effect.action == "widen"
            widened = "; the range of the estimate is wider" if widens else ""
            message = f"{_quoted(setting)} {effect.text}{widened}"
            place = refused if effect.action == "refuse" else warnings
            hint = _COMPARE if widens else _HINT
            place.append(Diagnostic(rule="launch.flag", message=message, hint=hint, span=setting.fact.span))
    if not launch.framework.is_known:
        warnings.append(_own_script(launch, unknown))
    elif unknown:
        warnings.append(_unknown_flags(launch, unknown))
    return FlagReview(tuple(refused), tuple(warnings))


def _quoted(setting: UnreadSetting) -> str:
    """Return the words of a setting, quoted, after its name and value where a variable hides them."""
    snippet = setting.fact.snippet
    hides = setting.name not in snippet.replace("-", "_") and snippet.startswith(("$", '"$'))
    return f"`{setting.name} {setting.text}` in `{snippet}`" if hides else f"`{snippet}`"


def _is_neutral(effect: FlagEffect, text: str, launch: Launch) -> bool:
    if re.fullmatch(effect.neutral, text.strip().lower()):
        return True
    batch = launch.fact("batch")
    is_count = text.isascii() and text.isdecimal() and len(text) < 10  # noqa: PLR2004 - digits of any batch
    return bool(effect.batches and batch and is_count and int(text) <= effect.batches * int(batch.value))


def _own_script(launch: Launch, unknown: list[UnreadSetting]) -> Diagnostic:
    name = launch.line.invocation.name.rpartition("/")[2]
    assumed = "" if "method" in launch.facts else ", and all weights count as trained"
    assumed += "" if "precision" in launch.facts else f"{' ' if assumed else ', and it computes '}in fp32"
    flags = f" ({_named(unknown)} could mean anything)" if unknown else ""
    return Diagnostic(
        rule="launch.script",
        message=f"`{name}` is not a script of a known framework: its flags are interpreted by name{flags}{assumed}; "
        "the range of the estimate is wider",
        hint=_COMPARE,
    )


def _unknown_flags(launch: Launch, unknown: list[UnreadSetting]) -> Diagnostic:
    return Diagnostic(
        rule="launch.flag",
        message=f"{_named(unknown)}: not in the known definitions of {launch.framework.name}, so the effect on "
        "memory is unknown; the range of the estimate is wider",
        hint=_COMPARE,
        span=unknown[0].fact.span,
    )


def _named(unknown: list[UnreadSetting]) -> str:
    names = ", ".join(f"`{setting.name}`" for setting in unknown[:_MAX_NAMED])
    return names + (f" and {plural(len(unknown) - _MAX_NAMED, 'more flag')}" if len(unknown) > _MAX_NAMED else "")
