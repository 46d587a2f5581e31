"""What words say: facts with their places, and what keeps words from being understood."""

from enum import StrEnum

from msgspec import Struct


class Launcher(StrEnum):
    """What starts the processes."""

    ACCELERATE = "accelerate"
    TORCHRUN = "torchrun"
    DEEPSPEED = "deepspeed"
    PYTHON = "python"  # one process (or what the environment says)
    CLI = "cli"  # a framework's own command: `llamafactory-cli train`, `tune run`, `axolotl train`, `litgpt finetune`


class Span(Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A place in a container's command: list (`command` or `args`), item, characters from `start` to `end` in it."""

    field: str
    index: int
    start: int
    end: int


class Fact(Struct, frozen=True, kw_only=True, gc=False):
    """A value after expansion; `snippet` are the words of the line (`--batch 4`), `span` where they stand.

    `span` is None where the value came from elsewhere: `origin` names it (`env AUTOCONF_METHOD`, a config file).
    """

    value: str
    snippet: str
    span: Span | None = None
    origin: str = ""


class Diagnostic(Struct, frozen=True, kw_only=True):
    """What keeps a launch line from being understood: stable `rule`, sentence, hint, and where."""

    rule: str
    message: str
    hint: str
    span: Span | None = None
