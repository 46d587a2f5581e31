"""The functions of a framework that the registry does not have: its file is `acme.toml`."""

from importlib.resources import files

from reconciler.launch.framework import Extraction
from reconciler.launch.frameworks import read_frameworks


def read_processes(extraction: Extraction) -> None:
    extraction.add_number("processes", extraction.script.find(("workers",)))
    extraction.add_number("machines", extraction.script.find(("hosts",)))


def read_method(extraction: Extraction) -> None:
    mode = extraction.resolve("method", extraction.script.find(("mode",)))
    if mode is not None:
        extraction.add("method", mode, "lora" if mode.text == "adapters" else "full")


(ACME,) = read_frameworks(files("tests.launch.frameworks"))
