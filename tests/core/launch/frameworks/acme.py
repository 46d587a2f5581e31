"""A framework that the registry does not have: one module and one row."""

import re

from reconciler.core.launch.framework import Command, Extraction, Framework, Overrides, ProcessFlags


def _read_processes(extraction: Extraction) -> None:
    extraction.add_number("processes", extraction.script.find(("workers",)))
    extraction.add_number("machines", extraction.script.find(("hosts",)))


def _read_method(extraction: Extraction) -> None:
    mode = extraction.resolve("method", extraction.script.find(("mode",)))
    if mode is not None:
        extraction.add("method", mode, "lora" if mode.text == "adapters" else "full")


ACME = Framework(
    name="acme",
    source="acme 1.0",
    commands=(
        Command(
            program="acme",
            verbs=re.compile("fit|tune"),
            process_flags=ProcessFlags(processes="--workers", machines="--hosts", counts_all=True, of_script=True),
            read_processes=_read_processes,
        ),
    ),
    programs=re.compile(r"acme\.fit|(?:.*/)?acme_fit\.py"),
    settings={
        "model": ("base",),
        "batch": ("data.micro",),
        "sequence": ("data.context",),
        "accumulation": ("data.steps",),
        "lora_rank": ("rank",),
    },
    defaults={"batch": "2", "precision": "bf16", "lora_rank": "4", "lora_targets": "all-linear"},
    single_values=True,
    config_flags=("recipe",),
    config_keys=frozenset({"acme_version"}),
    overrides=Overrides.WITH_FILE,
    other_objectives=re.compile("acme tune"),
    read_method=_read_method,
)
