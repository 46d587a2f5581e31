"""Check the servers of language models in files against the memory of their GPUs."""

from collections.abc import Iterator, Sequence
from functools import partial

from reconciler.errors import ConfigError, InvalidInput
from reconciler.kube.problems import Problem
from reconciler.kube.values import plural
from reconciler.kube.yaml import Document, read
from reconciler.launch import resolve_file
from reconciler.plan.outputs.sections.servers import CheckedServer
from reconciler.size.files import InputFile, config_map_in
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.serving import FoundServer, estimate_server, find_servers
from reconciler.sizing.serving.memory import smallest_layout
from reconciler.sizing.tables import SizingTables

_HINT = "set the node selector nvidia.com/gpu.product, or --gpu PRODUCT"


def check_servers(files: Sequence[InputFile], tables: SizingTables, *, gpu: str = "") -> list[CheckedServer]:
    """Return an answer for each container of the files that serves a model.

    gpu: product of servers whose pods select none.

    Raises `InvalidInput` with the errors of all lines, and `ConfigError` if no container serves a model.
    """
    answers: list[CheckedServer] = []
    problems: list[Problem] = []
    for file in files:
        reading = read(file.path, file.content)
        problems += reading.problems
        for document in reading.documents:
            find = partial(config_map_in, (file.content, *file.siblings().values()), document.key.namespace)
            for found in find_servers(document, tables, partial(_sibling, file), find):
                problems += _problems(document, found)
                if found.parsed.server is not None:
                    answers.append(_answer(document, found, _gpu(tables, found.product or gpu)))
    if problems:
        raise InvalidInput(problems, where="in these files")
    if not answers:
        paths = ", ".join(file.path for file in files)
        raise ConfigError(f"{paths}: no container starts vLLM or SGLang", hint="name a manifest of a server")
    return answers


def _sibling(file: InputFile, written: str) -> bytes | None:
    """Return the file beside a manifest that a line names."""
    siblings = file.siblings()
    path = resolve_file(written, siblings, file.path)
    return siblings.get(path) if path else None


def _gpu(tables: SizingTables, product: str) -> Gpu:
    if not product:
        raise ConfigError("the GPU product is unknown: nothing names it", hint=_HINT)
    found = tables.gpus.find(product)
    if found is None:
        near = tables.gpus.closest(product)
        raise ConfigError(
            f"unknown GPU product {product!r}", hint=f"did you mean {' or '.join(near)}?" if near else _HINT
        )
    return found


def _problems(document: Document, found: FoundServer) -> Iterator[Problem]:
    """Return the errors of a line, and a request of fewer GPUs than the server takes."""
    place = document.at((*found.container.path, "args"))
    for error in found.parsed.errors:
        yield Problem(rule=error.rule, place=place, message=error.message, hint=error.hint)
    server = found.parsed.server
    if server is None or not found.gpus or server.spans_nodes:
        return
    if server.gpus > found.gpus * server.pipeline:
        message = f"the server takes {plural(server.gpus, 'GPU')}, and its container requests {found.gpus}"
        yield Problem(
            rule="serving.gpus",
            place=place,
            message=message,
            hint="request as many GPUs as the parallel sizes multiply to",
        )


def _answer(document: Document, found: FoundServer, gpu: Gpu) -> CheckedServer:
    server = found.parsed.server
    if server is None:
        raise TypeError(f"{document.source} has no server")
    return CheckedServer(
        name=f"{document.key}  {document.at(found.container.path)}",
        server=server,
        gpu=gpu,
        estimate=estimate_server(server, gpu),
        smallest=smallest_layout(server, gpu),
        warnings=tuple(warning.message for warning in found.parsed.warnings),
    )
