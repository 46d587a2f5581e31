"""Schedules of CronJobs, as robfig/cron v3 parses them (`cron.ParseStandard`)."""

import re

from reconciler.core.patterns import later

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 6))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {3: {name: number for number, name in enumerate(_MONTHS, 1)}, 4: {name: n for n, name in enumerate(_DAYS)}}
_MACROS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_DURATION = later(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+", re.ASCII)


def schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule; empty if nothing is."""
    written = schedule.removeprefix("@every ")
    if written != schedule:
        return "" if _DURATION.fullmatch(written) else f"{written!r} is not a duration"
    fields = schedule.split()
    if schedule.startswith("@"):
        return "" if schedule in _MACROS else f"{schedule} is not a macro"
    if len(fields) != len(_FIELDS):
        return ""  # the schema knows how many there are
    for index, field in enumerate(fields):
        for part in filter(None, field.split(",")):
            problem = _range_problem(part, index)
            if problem:
                return problem
    return ""


def _range_problem(part: str, index: int) -> str:
    """Return what is wrong with one part of a field: `*`, `5`, `mon-fri`, `0-30/5`."""
    name, low, high = _FIELDS[index]
    span, _, step = part.partition("/")
    if "/" in part and (not step.isdecimal() or int(step) == 0):
        return f"the step of {part} is not a positive number"
    if span in ("*", "?"):
        return ""
    first, dash, last = span.partition("-")
    numbers = [_number(text, index) for text in ((first, last) if dash else (first,))]
    if None in numbers:
        return f"{part!r} is not a {name}"
    values = [number for number in numbers if number is not None]
    if values[0] < low or values[-1] > high:
        return f"{part} is not a {name}: {low} to {high}"
    return f"the range {part} is backwards" if values[0] > values[-1] else ""


def _number(text: str, index: int) -> int | None:
    named = _NAMES.get(index, {}).get(text.lower())
    return named if named is not None else int(text) if text.isascii() and text.isdecimal() else None
