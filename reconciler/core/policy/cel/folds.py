"""The functions of macros: they evaluate a body for each item of a list, or each key of a map.

The item is in a slot of the environment; of macros with two variables, the slot has both.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reconciler.core.policy.cel.library.lists import sort_by
from reconciler.core.policy.cel.program import Run, count
from reconciler.core.policy.cel.values import NONE, CelError, Optional, kind_of

_Visit = Callable[[Any, list[Any]], Iterable[Any]]


def _items(value: Any, env: list[Any]) -> Iterable[Any]:
    """Return what a macro with one variable visits."""
    if type(value) is not list and kind_of(value) not in ("list", "map"):
        raise CelError(f"no such overload: {kind_of(value)} has no items")
    count(env, len(value))
    return value  # type: ignore[no-any-return]


def _pairs(value: Any, env: list[Any]) -> Iterable[tuple[Any, Any]]:
    """Return what a macro with two variables visits."""
    items = _items(value, env)
    return value.items() if kind_of(value) == "map" else enumerate(items)


def build(  # noqa: PLR0911 - one for each macro
    macro: str, target: Run, slot: int, bodies: Sequence[Run], *, is_pair: bool
) -> Run:
    """Return the function of a macro."""
    visit = _pairs if is_pair else _items
    if macro in ("all", "exists"):
        return _quantifier(target, slot, bodies[0], visit, decisive=macro == "exists")
    if macro in ("optMap", "optFlatMap"):
        return _optional(target, slot, bodies[0], wraps=macro == "optMap")
    chosen = bodies[0] if macro in ("exists_one", "filter") or len(bodies) > 1 else None
    selected = _selected(target, slot, chosen, visit)
    if macro == "exists_one":
        return lambda env: sum(1 for _ in selected(env)) == 1
    if macro == "filter":
        return lambda env: list(selected(env))
    body = bodies[-1]
    if macro in ("map", "transformList"):
        return lambda env: [body(env) for _ in selected(env)]
    if macro == "transformMap":
        return lambda env: {pair[0]: body(env) for pair in selected(env)}
    if macro == "transformMapEntry":
        return lambda env: _merged(body(env) for _ in selected(env))
    return _sort_by(target, slot, body)


def _selected(target: Run, slot: int, chosen: Run | None, visit: _Visit) -> Callable[[list[Any]], Iterable[Any]]:
    """Return a function that visits the items for which `chosen` is true."""

    def run(env: list[Any]) -> Iterable[Any]:
        for item in visit(target(env), env):
            env[slot] = item
            if chosen is not None:
                answer = chosen(env)
                if answer is False:
                    continue
                if answer is not True:
                    raise CelError("no such overload")
            yield item

    return run


def _quantifier(target: Run, slot: int, body: Run, visit: _Visit, *, decisive: bool) -> Run:
    answer = decisive

    def run(env: list[Any]) -> bool:
        failure: CelError | None = None
        for item in visit(target(env), env):
            env[slot] = item
            try:
                found = body(env)
                if found is decisive:
                    return answer
                if type(found) is not bool:
                    failure = failure or CelError("no such overload")
            except CelError as error:
                if failure is None or (error.unanswerable and not failure.unanswerable):
                    failure = error
        if failure is not None:
            raise failure
        return not decisive

    return run


def _optional(target: Run, slot: int, body: Run, *, wraps: bool) -> Run:
    def run(env: list[Any]) -> Any:
        value = target(env)
        if not isinstance(value, Optional):
            raise CelError("no such overload: hasValue")
        if not value.present:
            return NONE
        env[slot] = value.value
        return Optional(body(env)) if wraps else body(env)

    return run


def _merged(entries: Iterable[Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for entry in entries:
        if kind_of(entry) != "map":
            raise CelError("no such overload: cel.@mapInsert")
        for key, value in entry.items():
            if key in found:
                raise CelError(f"insert failed: key {key} already exists")
            found[key] = value
    return found


def _sort_by(target: Run, slot: int, body: Run) -> Run:
    def run(env: list[Any]) -> list[Any]:
        items = list(_items(target(env), env))
        keys = []
        for item in items:
            env[slot] = item
            keys.append(body(env))
        return sort_by(items, keys)

    return run
