"""Scripts of an unknown framework, with or without the `Trainer` of transformers."""

import re

from reconciler.launch.facts import Diagnostic
from reconciler.launch.framework import Extraction
from reconciler.launch.training import read_framework_method

_LAUNCHES = re.compile(r".*(?:spawn|launch|runner).*")
_NAMES_ADAPTERS = re.compile(
    r".*(?:^|[^a-z])(?:q?lora|dora|peft|adapters?|ptuning|[48]bit)(?:[^a-z].*|$)", re.IGNORECASE
)


def _reject_launcher(extraction: Extraction, script: str) -> None:
    """Reject a launcher that we do not know: how many processes it starts is unknown."""
    fields = extraction.invocation.fields[extraction.invocation.program + 1 :]
    started = next((field for field in fields if field.text.endswith(".py")), None)
    if started is not None and _LAUNCHES.fullmatch(script):
        message = f"`{script}` starts `{started.text}`, in an unknown number of processes"
        span = extraction.line.source.span(started)
        extraction.reject("method", message, span, "start the script by torchrun, accelerate or deepspeed")


def read_method(extraction: Extraction) -> None:
    """Read the method; refuse a script that starts another, and one that makes adapters by itself, if no flag does."""
    read_framework_method(extraction)
    script = extraction.invocation.name.rpartition("/")[2]
    _reject_launcher(extraction, script)
    if "method" in {*extraction.facts, *extraction.unresolved} or not _NAMES_ADAPTERS.fullmatch(script):
        return
    extraction.unresolved["method"] = Diagnostic(
        rule="launch.missing",
        message=f"`{script}` names adapters, or weights in few bits, and no flag says which",
        hint="set AUTOCONF_METHOD in the container's env: full, lora, qlora, gptq-lora or int8-lora",
        missing="method",
    )
