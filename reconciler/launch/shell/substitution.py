"""Command substitutions whose result follows from variables, or that count the GPUs of a node."""

import re

from reconciler.launch.shell.ast import Literal, ParameterExpansion, Part, UnknownExpansion

ITEMS = "items"
"""Operator of an expansion that counts the items of a variable, which commas separate."""

ALL_GPUS = "gpu"
"""As torchrun calls the number of GPUs of a node (`--nproc_per_node=gpu`)."""

_COUNTS_GPUS = re.compile(
    r"nvidia-smi (?:-L|--list-gpus|--query-gpu=\w+ --format=csv,noheader(?:,nounits)?) ?\| ?wc -l"
    r"|nvidia-smi --query-gpu=count --format=csv,noheader(?:,nounits)? ?\| ?head -(?:n ?)?1"
    r"|python3? -c ['\"]import torch; ?print\(torch\.cuda\.device_count\(\)\)['\"]"
)
_COUNTS_ITEMS = re.compile(
    r"echo \"?\$\{?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}?\"? ?\| ?(?:tr ['\"]?,['\"]? (?:['\"]\\n['\"]|\\\\n) ?\| ?wc -l"
    r"|tr ['\"]?,['\"]? ['\"] ['\"] ?\| ?wc -w|awk -F ?['\"]?,['\"]? ['\"]\{ ?print NF;? ?\}['\"])"
)
_ERRORS = re.compile(r"[ \t]*2>[ \t]*/dev/null|[ \t]*\|\|[ \t]*true$")
_BLANKS = re.compile(r"[ \t\n]+")


def read_substitution(command: str, *, quoted: bool) -> Part:
    """Return the output of a command in `$(…)`, where that is known without running it."""
    text = _BLANKS.sub(" ", _ERRORS.sub("", command)).strip()
    if _COUNTS_GPUS.fullmatch(text):
        return Literal(ALL_GPUS, quoted)
    if (match := _COUNTS_ITEMS.fullmatch(text)) is not None:
        return ParameterExpansion(match["name"], quoted, "", ITEMS)
    return UnknownExpansion("a command substitution", quoted)
