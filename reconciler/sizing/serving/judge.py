"""Judge the servers of a document that is committed: a warning where they need more memory than their GPUs have."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.values import plural
from reconciler.kube.yaml import Document
from reconciler.launch import Diagnostic, FileReader
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.serving.containers import FoundServer, find_servers, no_config_map
from reconciler.sizing.serving.engines import SERVERS
from reconciler.sizing.serving.line import HEADS
from reconciler.sizing.serving.memory import ServerEstimate, ServerVerdict, estimate_server, smallest_layout
from reconciler.sizing.serving.server import Server, ServingEngine
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training_jobs.config_maps import FindConfigMap


def judge_servers(
    document: Document,
    tables: SizingTables,
    files: FileReader,
    measured: Callable[[], Sequence[Gpu]],
    config_map: FindConfigMap = no_config_map,
) -> Iterator[Problem]:
    """Warn of each server that surely does not fit the product that its pods select, or the only one in the evidence.

    Also of each one that starts on no product because tensor parallelism cannot divide its heads. Other lines that
    cannot be read, and pods whose product is unknown, are not judged. `measured` returns the GPUs of the evidence: it
    is asked only about servers whose lines can be read.
    """
    for found in find_servers(document, tables, files, config_map):
        for error in found.parsed.errors:
            if error.rule == HEADS:
                yield _heads(document, found, error)
        server = found.parsed.server
        gpu = None if server is None else _gpu(found.product, measured(), tables)
        if server is None or gpu is None:
            continue
        estimate = estimate_server(server, gpu)
        if estimate.verdict is ServerVerdict.DOES_NOT_FIT:
            message, hint = _message(server, gpu, estimate), _hint(server, gpu, estimate)
            yield document.problem("serving.memory", _line(found, server), message, hint, severity=Severity.WARNING)


def _heads(document: Document, found: FoundServer, error: Diagnostic) -> Problem:
    path = (*found.container.path, "args" if found.container.args else "command")
    if error.span is not None:
        path = (*found.container.path, error.span.field, error.span.index)
    problem = error.to_problem(document.at(path), format_path(path))
    return replace(problem, severity=Severity.WARNING)


def _gpu(product: str, measured: Sequence[Gpu], tables: SizingTables) -> Gpu | None:
    if product:
        own = next((gpu for gpu in measured if tables.gpus.agree(gpu.product, product)), None)
        return own or tables.gpus.find(product)
    return measured[0] if len(measured) == 1 else None


def _line(found: FoundServer, server: Server) -> FieldPath:
    """Return the path of the word that names the model, or else of the words."""
    container = found.container
    for field, words in (("args", container.args), ("command", container.command)):
        for index, word in enumerate(words):
            if server.model in word:
                return (*container.path, field, index)
    return (*container.path, "args" if container.args else "command")


def _message(server: Server, gpu: Gpu, estimate: ServerEstimate) -> str:
    parts = [f"weights {estimate.weights_gib:.1f}", f"overhead {estimate.overhead_gib:.1f}"]
    if server.engine is ServingEngine.VLLM:
        parts.insert(1, f"activations {estimate.activations_gib:.1f}")
    if estimate.need_gib:
        parts.append(f"the cache of a request of {server.length:,} tokens {estimate.need_gib:.1f}")
    where = f"{plural(server.gpus, 'GPU')} ({gpu.product})"
    return f"{server.architecture.name} does not fit {where}: of {estimate.limit_gib:.1f} GiB, {', '.join(parts)}"


def _hint(server: Server, gpu: Gpu, estimate: ServerEstimate) -> str:
    """Return the settings that make it fit, which the reader of these lines has judged."""
    settings = next(row for row in SERVERS if row.name == server.engine.value).settings
    flag = {name: f"--{settings[name][0].replace('_', '-')}" for name in ("tensor", "pipeline", "length")}
    ways = []
    smallest = smallest_layout(server, gpu)
    if smallest is not None:
        alone = f", without {flag['pipeline']}" if server.pipeline > 1 else ""
        ways.append(f"set {flag['tensor']} {smallest.tensor}{alone} and request {plural(smallest.gpus, 'GPU')}")
    if 0 < estimate.longest < server.length:
        ways.append(f"set {flag['length']} {estimate.longest}")
    return " or ".join(ways) or "serve it on GPUs with more memory, or with weights of fewer bits"
