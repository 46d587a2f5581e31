"""Bodies: what users named is inert, what people wrote stays, and our part is found again."""

import re

import pytest
from markdown_it import MarkdownIt

from reconciler.forge.bodies import change_text, plain, read_marker, title_of, with_text

HOSTILE = [
    "@everyone",
    "<img src=x onerror=alert(1)>",
    "--> <script>",
    "#1 !2 GH-3",
    "<!-- gpu-reconciler:end -->",
    "`x` | y",
]
KEY = "a" * 64


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_users_are_inert(name: str) -> None:
    """FG-09: no HTML, no mention, no end of our hidden line."""
    body = with_text("", change_text(name, [(f"jobs/{name}.yaml", name)], name), cluster=name, key=KEY)
    shown = MarkdownIt("commonmark", {"html": False}).enable("table").render(body.partition("-->")[2])
    assert "<img" not in shown
    assert "<script" not in shown
    assert "@everyone" not in re.sub(r"<code>.*?</code>", "", shown), "forges mention nobody in code"
    assert "@everyone" not in title_of(name)
    again = with_text(body, "other", cluster=name, key="b" * 64)
    assert again.partition("-->")[2] == "\n\nother\n\n<!-- gpu-reconciler:end -->\n"
    marker = read_marker(body)
    assert marker is not None
    assert marker.key == KEY
    assert "<!--" not in plain(name)


def test_what_people_write_around_our_part_stays() -> None:
    """F-161: and without our part, the body is theirs."""
    body = "before\n" + with_text("", "one", cluster="main", key=KEY) + "after"
    changed = with_text(body, "two", cluster="main", key="b" * 64)
    assert (changed.startswith("before\n"), changed.endswith("after"), "two" in changed, "one" in changed) == (
        True,
        True,
        True,
        False,
    )
    assert with_text("mine alone", "two", cluster="main", key=KEY) == "mine alone"
