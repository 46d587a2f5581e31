"""The comment on a pull request: golden files, bounds, and harmlessness as CommonMark itself reads it."""

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from reconciler.console.printable import printable, spans
from reconciler.outputs import RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.markdown import GITHUB_LIMIT, code, fence, marker, prose, render_markdown, size
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.goldens import agrees
from tests.plan.outputs.strategies import PLANS, TEXT

READER = MarkdownIt("commonmark", {"html": True}).enable("table")
OURS = re.compile(
    r"<!-- gpu-reconciler:plan:[A-Za-z0-9._/-]* -->|<details><summary>.*</summary>|</details>|<br>|</?sub>|</?b>"
)
LIVE = re.compile(r"@\w|(?<!&)#\d|\bGH-\d|://|www\.|:\w+:|!\d", re.IGNORECASE)


def pieces(text: str) -> tuple[list[Token], list[Token]]:
    """Return the block and the inline tokens of a comment."""
    blocks = READER.parse(text)
    return blocks, [child for block in blocks for child in block.children or ()]


def live_text(text: str) -> list[str]:
    """Return what a forge would search for mentions: text outside code, with references decoded."""
    blocks, inline = pieces(text)
    found = [token.content for token in inline if token.type == "text"]
    raw = [re.sub(r"<code>.*?</code>", " ", block.content) for block in blocks if block.type == "html_block"]
    return found + [html.unescape(re.sub(r"<[^>]*>", " ", content)) for content in raw]


def assert_harmless(text: str) -> None:
    blocks, inline = pieces(text)
    allowed = {
        "heading_open", "heading_close", "inline", "paragraph_open", "paragraph_close", "html_block", "fence",
        "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "blockquote_open",
        "blockquote_close", "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close",
        "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close",
    }  # fmt: skip
    assert {token.type for token in blocks} <= allowed
    assert {token.type for token in inline} <= {
        "text", "code_inline", "strong_open", "strong_close", "em_open", "em_close", "html_inline", "softbreak",
        "text_special",
    }  # fmt: skip
    raw = [token.content for token in blocks if token.type == "html_block"]
    raw += [token.content for token in inline if token.type == "html_inline"]
    for content in raw:
        assert not OURS.sub("", content).strip(), content
    folded = "".join(raw)
    assert folded.count("<details>") == folded.count("</details>") == folded.count("<summary>")
    for content in live_text(text):
        assert not LIVE.search(content), content
    assert "##[" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert not any(line.startswith("/") for line in text.splitlines())
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("name", ["everything", "gated", "small", "quiet", "hostile"])
def test_comments(name: str) -> None:
    shown = render_markdown(getattr(plans, name)(), scope="main")
    assert_harmless(shown)
    assert agrees(f"{name}.md", shown)


def test_every_field_when_asked() -> None:
    shown = render_markdown(plans.everything(), RenderOptions(full=True))
    assert "+ metadata.name: llama-70b-sft" in shown
    assert "+ metadata.name: llama-70b-sft" not in render_markdown(plans.everything())
    assert_harmless(shown)


def test_lint_shows_findings_only() -> None:
    shown = render_markdown(plans.broken(), RenderOptions(lint=True))
    assert_harmless(shown)
    assert agrees("broken-lint.md", shown)


def test_the_first_line_is_how_a_later_run_finds_its_comment() -> None:
    assert render_markdown(plans.quiet(), scope="main").splitlines()[0] == "<!-- gpu-reconciler:plan:main -->"
    assert marker("a--> <b>@x") == "<!-- gpu-reconciler:plan:a-b-x -->"
    assert marker("-->") == "<!-- gpu-reconciler:plan: -->"


def test_the_approval_is_ready_to_copy() -> None:
    assert "`reconciler approve --reason 'TEXT'`" in render_markdown(plans.everything())
    approved = render_markdown(plans.approved())
    assert "--reason" not in approved
    assert "the partner leaves (`approvals/3f9c21ab04d2.yaml`)" in approved


def many(count: int) -> Plan:
    changes = tuple(
        replace(plans.RESIZED, key=replace(plans.RESIZED.key, name=f"job-{n}"), gpus_after=n) for n in range(count)
    )
    return replace(plans.everything(), changes=changes)


def test_a_long_plan_is_cut_between_objects_and_says_so() -> None:
    shown = render_markdown(many(2_000))
    assert size(shown) <= GITHUB_LIMIT
    assert size(shown) > GITHUB_LIMIT * 0.95
    assert_harmless(shown)
    left = re.search(r"… and ([\d,]+) more objects\. Run `reconciler plan` to see all\.", shown)
    assert left is not None
    count = int(left.group(1).replace(",", ""))
    assert shown.count("<code>research/job-") + count == 2_000
    # What a reviewer needs first is there whatever the length.
    assert shown.index("#### GPUs") < shown.index("#### Errors") < shown.index("#### Objects: 2,000")


def test_an_object_too_large_for_the_comment_is_named_without_its_fields() -> None:
    field = replace(plans.RESIZED.fields[0], path="spec.x", before="", after="line\n" * 90_000)
    giant = replace(plans.RESIZED, fields=tuple(replace(field, path=f"spec.x{n}") for n in range(3)))
    shown = render_markdown(replace(plans.everything(), changes=(giant, plans.SUSPENDED)), limit=9_000)
    assert size(shown) <= 9_000
    assert_harmless(shown)
    assert "vit-sweep" in shown
    assert "more objects" not in shown


@pytest.mark.parametrize("limit", [1_000, 1_500, 3_000, 6_000, 32_768])
def test_other_limits(limit: int) -> None:
    for plan in (plans.everything(), many(50), plans.hostile()):
        shown = render_markdown(plan, limit=limit)
        assert size(shown) <= limit
        assert_harmless(shown)
        assert shown.startswith("<!-- gpu-reconciler:plan:default -->")


def test_a_limit_in_which_nothing_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1000"):
        render_markdown(plans.quiet(), limit=999)


@settings(max_examples=sizes.examples(120), deadline=None)
@given(PLANS, st.sampled_from((1_000, 2_500, 5_000, 20_000, GITHUB_LIMIT)), TEXT, st.booleans(), st.booleans())
def test_no_string_does_harm(plan: Plan, limit: int, scope: str, full: bool, lint: bool) -> None:
    """Any strings: within the limit, balanced, nothing live, as a CommonMark parser sees it."""
    shown = render_markdown(plan, RenderOptions(full=full, lint=lint), limit=limit, scope=scope)
    assert size(shown) <= limit
    assert_harmless(shown)


@given(TEXT)
def test_prose_shows_the_text_itself(text: str) -> None:
    """Escapes are for machines: a reader sees what was written, but for the parting spaces, and code as code."""
    shown = prose(f"x {text}", longest=10_000)
    _, inline = pieces(f"y {shown}")
    rendered = "".join(token.content for token in inline).replace("\u200b", "")
    assert rendered.split() == f"y x {''.join(spans(printable(text)))}".split()


def test_commands_in_sentences_are_code() -> None:
    assert prose("run `reconciler approve --reason 'TEXT'` again") == "run `reconciler approve --reason 'TEXT'` again"
    for hostile in ("`@all`", "``a``", "`a", "` a`", "`<b>`", "`a|b`", "`#1`", "`a\\`"):
        assert "&#96;" in prose(hostile), hostile


@given(TEXT)
def test_code_is_one_span_even_in_a_table(text: str) -> None:
    table = READER.parse(f"| a | b |\n|---|---|\n| {code(text)} | z |\n")
    cells_of = [token for token in table if token.type == "inline"]
    assert len(cells_of) == 4
    assert cells_of[3].content == "z"
    kinds = {child.type for child in cells_of[2].children or ()}
    assert kinds in ({"code_inline"}, {"text"})


@given(st.lists(TEXT, max_size=5))
def test_a_fence_holds_whatever_is_in_it(lines: list[str]) -> None:
    tokens = READER.parse(fence([f"+ {line}" for line in lines]) + "\n\nafter")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
