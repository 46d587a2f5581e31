"""The frame of a page: its style, its script and what a browser may do with it."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reconciler.console.printable import clip_middle, printable, spans
from reconciler.kube.patterns import later

_PLACE = later(r"(.+?)(?::(\d+))?(?::\d+)?")
_TEMPLATES = Path(__file__).with_name("templates")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        keep_trailing_newline=True,
    )
    made.filters |= {"shown": printable, "said": _said, "address": source_address}
    made.filters |= {name: partial(_clipped, cells=cells) for name, cells in (("name", 160), ("short", 26))}
    made.finalize = _without_none
    return made


def _said(text: str) -> Markup:
    """Escape a sentence; commands and field names in backticks become code."""
    parts = enumerate(spans(printable(text)))
    return Markup("").join(Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in parts)


def source_address(place: str) -> str:
    """Return the address of a place, such as `jobs/a.yaml:3:1`, among the pages of a repository."""
    found = _PLACE.fullmatch(place)
    path, line = found.groups() if found is not None else (place, None)
    return f"/source/{quote(path)}#L{line or 1}"


def _clipped(text: str, *, cells: int) -> str:
    return clip_middle(printable(text), cells)


def _without_none(value: Any) -> Any:
    return "" if value is None else value


def fragment(template: str, **values: Any) -> Markup:
    """Return what a template makes of values; strings among them are escaped."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704 - Jinja2 has escaped it


def page(
    template: str,
    *,
    title: str,
    live: str = "",
    here: str = "",
    navigation: Sequence[tuple[str, str]] = (),
    **values: Any,
) -> str:
    """Return a whole page.

    live: a path of this server, whose events it follows; empty for a file.
    navigation: the names and paths of all pages, of which this one is `here`.
    """
    style, script = _asset("page.css"), _asset("page.js")
    own = "'self'" if live else "'none'"
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        f"connect-src {own}; form-action {own}; base-uri 'none'"
    )
    frame: Callable[..., str] = _environment().get_template(template).render
    return frame(
        title=title,
        live=live,
        here=here,
        navigation=navigation,
        policy=policy,
        style=Markup(style),  # noqa: S704 - ships with the package
        script=Markup(script),  # noqa: S704 - ships with the package
        **values,
    )


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
