"""The plan as one HTML file: complete without network and script, safe whatever a repository names, and small."""

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from reconciler.outputs import RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.html import render_html
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.strategies import PLANS

VOID = {"meta", "input"}
ALLOWED = {"meta", "rect", "line", "g", "svg", "text", "title", "path"}


class Reader(HTMLParser):
    """Collects the elements of a page, and checks that each is closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.words).append(data)


def is_safe(text: str) -> Reader:
    """Read a page: one script, which is ours, no handler, and nothing that is loaded from somewhere."""
    read = Reader(text)
    assert read.open == []
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert "".join(read.scripts).startswith('"use strict";')
    for tag, attributes in read.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert attributes.get("href", "#main") == "#main"
        assert not attributes.keys() & {"src", "srcset", "style", "action", "formaction", "data", "background"}
    assert "default-src 'none'" in unescape(text)
    return read


@pytest.mark.parametrize("make", [plans.everything, plans.gated, plans.hostile, plans.quiet, plans.small, plans.broken])
def test_pages_are_complete_and_safe(make: object) -> None:
    """F-162, WV-02: names of a repository are text, whatever they contain."""
    assert callable(make)
    plan = make()
    read = is_safe(render_html(plan))
    shown = " ".join("".join(read.words).split())
    for change in plan.changes[:3]:
        assert change.key.kind in shown
    assert plan.digest in shown


def test_commands_in_sentences_are_code() -> None:
    page = render_html(plans.everything())
    assert "<code>reconciler approve --reason &#39;TEXT&#39;</code> on this branch" in page
    assert "`reconciler" not in page


def test_a_page_tells_what_the_others_tell() -> None:
    """Headlines, answers, a bar for each queue that changes with quota and limit, findings, and objects with diffs."""
    page = render_html(plans.everything())
    shown = " ".join("".join(is_safe(page).words).split())
    for words in (
        "Data may be lost: PersistentVolumeClaim research/old-run-workspace on main",
        "no: main has 40 NVIDIA-H200 for 56 requested",
        "Cannot be committed: 1 policy denial, 1 budget exceeded",
        "risk.pvc-data-loss",
        "reconciler approve --reason 'TEXT'",
    ):
        assert words in shown, words
    assert page.count('class="mark quota"') >= 2
    assert 'class="over"' in page
    assert '<span class="add">' in page


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert render_html(plans.everything()) == render_html(plans.everything())


def test_a_thousand_changes_are_small() -> None:
    """F-162: below 500 kB; objects for which there is no room are counted."""
    plan = plans.everything()
    many = tuple(
        replace(change, key=replace(change.key, name=f"{change.key.name}-{number}"), path=f"{change.path}.{number}")
        for number in range(100)
        for change in plan.changes[:10]
    )
    page = render_html(replace(plan, changes=many))
    assert len(many) == 1000
    assert len(page.encode()) < 500_000
    is_safe(page)


def test_a_summary_leaves_the_objects_out() -> None:
    page = render_html(plans.everything(), RenderOptions(summary=True))
    assert 'id="objects"' not in page
    assert "GPUs" in page


@settings(max_examples=sizes.examples(40), deadline=None)
@given(PLANS)
def test_no_string_leaves_its_place(plan: Plan) -> None:
    is_safe(render_html(plan))
