"""Edits of the settings of a line, as if they stood on it: what a change is called by each framework and launcher.

The rows of frameworks and launchers name their settings for a change (`changes`). `parse_launch` reads a line with
edits, so that what follows from a change is what the line would say.
"""

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from reconciler.launch.framework import Framework, Launcher, Overrides
from reconciler.launch.launch import Launch
from reconciler.launch.settings import SettingTable, flag_name

DEEPSPEED_CHANGES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        f"zero-{stage}{suffix}": {"zero_optimization.stage": str(stage), **offloads}
        for stage in (2, 3)
        for suffix, offloads in (
            ("", {}),
            (" optimizer", {"zero_optimization.offload_optimizer.device": "cpu"}),
            (
                " all",
                {
                    "zero_optimization.offload_optimizer.device": "cpu",
                    "zero_optimization.offload_param.device": "cpu",
                },
            ),
        )
        if stage == 3 or suffix != " all"  # noqa: PLR2004 - only stage 3 offloads parameters
    }
)
"""Keys of a DeepSpeed configuration (https://www.deepspeed.ai/docs/config-json/#zero-optimizations-for-fp16-training)."""

_OF_LAUNCHER, _APPENDS = "--", "+"
"""Start of a flag of accelerate in the row of a framework; end of a list that a change adds an item to."""


class SettingOwner(StrEnum):
    """The program or file whose setting an edit is."""

    LAUNCHER = "launcher"
    FRAMEWORK = "framework"
    DEEPSPEED = "deepspeed"  # a key of the DeepSpeed configuration that the line names


class SettingEdit(Struct, frozen=True, kw_only=True):
    """A setting and its new value. An empty `value` is a switch, which has none. `appends`: adds to a list."""

    owner: SettingOwner
    name: str
    value: str
    appends: bool = False


def edits_for(
    change: str, framework: Framework, launch: Launch | None = None, values: Mapping[str, str] | None = None
) -> tuple[SettingEdit, ...] | None:
    """Return the settings that make a change; None if neither the framework nor the launcher has them.

    `values` fill placeholders such as `{degree}`. The stage of a DeepSpeed configuration changes in that file. The
    launcher comes before the framework, unless the framework is configured by a file of its own.
    """
    names_file = launch is not None and _names_deepspeed_file(launch)
    if names_file and change in DEEPSPEED_CHANGES:
        return _edits(SettingOwner.DEEPSPEED, DEEPSPEED_CHANGES[change])
    launcher: Launcher | None = launch.launcher if launch is not None else None
    rows = [(SettingOwner.FRAMEWORK, framework.changes), (SettingOwner.LAUNCHER, launcher.changes if launcher else {})]
    if not is_configured_by_file(framework):
        rows.reverse()
    for owner, changes in rows:
        found = changes.get(change)
        if found is not None and (launcher is None or launcher.changes or not any(map(_is_launchers, found))):
            return _edits(owner, {name: text.format_map(values or {}) for name, text in found.items()}, launch)
    return None


def _edits(owner: SettingOwner, settings: Mapping[str, str], launch: Launch | None = None) -> tuple[SettingEdit, ...]:
    edits = []
    for names, value in settings.items():
        is_launchers = _is_launchers(names)
        name = spelled_name(names.removeprefix(_OF_LAUNCHER).removesuffix(_APPENDS).split("|"), launch)
        whose = SettingOwner.LAUNCHER if is_launchers else owner
        edits.append(SettingEdit(owner=whose, name=name, value=value, appends=names.endswith(_APPENDS)))
    return tuple(edits)


def _is_launchers(names: str) -> bool:
    """Return whether a setting of a framework's row is one of accelerate, which other launchers do not take."""
    return names.startswith(_OF_LAUNCHER)


def spelled_name(names: Sequence[str], launch: Launch | None) -> str:
    """Return the name that stands on the line, as it is written there; else the newest of several versions' names."""
    given = (launch.option(name, of_script=True) for name in names) if launch is not None else ()
    found = next((option for option in given if option is not None), None)
    return names[0] if found is None else found.flag.text.lstrip("-").partition("=")[0]


def _names_deepspeed_file(launch: Launch) -> bool:
    """Return whether the stage of ZeRO is that of a configuration file."""
    strategy = launch.facts.get("strategy")
    return strategy is not None and strategy.snippet.startswith("deepspeed.zero_optimization")


def is_configured_by_file(framework: Framework) -> bool:
    """Return whether a framework reads its settings from a file of its own, where the changes belong."""
    return framework.config_may_be_unknown or framework.overrides is Overrides.ALWAYS


def apply_edits(edits: Sequence[SettingEdit], launcher: SettingTable, script: SettingTable) -> None:
    """Set the edited values in the tables of a line. They win over its flags and files."""
    for edit in edits:
        if edit.owner is SettingOwner.LAUNCHER:
            launcher.override(edit.name, edit.value)
        elif edit.owner is SettingOwner.DEEPSPEED:
            script.override(f"deepspeed.{edit.name}", edit.value)
        else:
            script.override(flag_name(edit.name), edit.value)


def format_edits(edits: Sequence[SettingEdit], framework: Framework) -> str:
    """Return edits as they are written: flags of the line, words, or keys of a file."""
    return "; ".join(
        text
        for owner in SettingOwner
        if (
            text := _SEPARATORS[owner, is_file := is_configured_by_file(framework)].join(
                _format(edit, framework, is_file=is_file) for edit in edits if edit.owner is owner
            )
        )
    )


_SEPARATORS = {
    (owner, is_file): ", " if owner is SettingOwner.DEEPSPEED or (owner is SettingOwner.FRAMEWORK and is_file) else " "
    for owner in SettingOwner
    for is_file in (False, True)
}


def _format(edit: SettingEdit, framework: Framework, *, is_file: bool) -> str:
    if edit.owner is SettingOwner.DEEPSPEED or (edit.owner is SettingOwner.FRAMEWORK and is_file):
        if framework.overrides is Overrides.ALWAYS and edit.owner is SettingOwner.FRAMEWORK:
            return f"{edit.name}={shlex.quote(edit.value)}"
        return f"{edit.name}: [..., {edit.value}]" if edit.appends else f"{edit.name}: {edit.value or 'true'}"
    return f"--{edit.name} {shlex.quote(edit.value)}" if edit.value else f"--{edit.name}"
