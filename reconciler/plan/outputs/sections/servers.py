"""The output of `reconciler size serve`: whether a server fits its GPUs, and what its cache holds."""

from typing import Any

from msgspec import Struct

from reconciler.console.page import Page, Style, Styled
from reconciler.plan.outputs.terminal_sections import write_facts
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.serving import Server, ServerEstimate, ServerVerdict

_STYLES = {
    ServerVerdict.FITS: Style.SUCCESS,
    ServerVerdict.TIGHT: Style.WARNING,
    ServerVerdict.DOES_NOT_FIT: Style.ERROR,
}


class CheckedServer(Struct, frozen=True, kw_only=True):
    """A server on a GPU product, and the same server on the fewest GPUs of one node that fit (None: none do)."""

    name: str
    server: Server
    gpu: Gpu
    estimate: ServerEstimate
    smallest: Server | None = None
    warnings: tuple[str, ...] = ()


def render_server(answer: CheckedServer, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """Render the answer for one server."""
    page = Page(width=width, color=color, unicode=unicode)
    page.write(Styled(answer.name, Style.STRONG))
    facts = {"read": _read(answer), "memory": _memory(answer), "cache": _cache(answer.estimate)}
    write_facts(page, [(name, (text,)) for name, text in facts.items()], indent=0)
    for warning in answer.warnings:
        page.write(Styled(f"warning: {warning}", Style.WARNING))
    page.blank()
    verdict = answer.estimate.verdict
    page.write(Styled(_sentence(answer), _STYLES[verdict]))
    return page.text()


def _read(answer: CheckedServer) -> str:
    server, model = answer.server, answer.server.architecture
    ways = [f"{name} {size}" for name, size in _ways(server) if size > 1]
    length = f"{server.length:,} tokens" if server.length else "requests as long as the model's context"
    kept = "8 bits" if server.cache_width < 2 else "16 bits"  # noqa: PLR2004 - bytes of bf16
    parts = [f"{model.name} ({model.parameters / 1e9:.3g} B)", server.engine.value, f"weights {server.weights.value}"]
    return ", ".join([*parts, f"cache in {kept}", length, *ways, answer.gpu.product])


def _ways(server: Server) -> tuple[tuple[str, int], ...]:
    return (("tensor", server.tensor), ("pipeline", server.pipeline), ("data", server.data))


def _memory(answer: CheckedServer) -> str:
    found = answer.estimate
    return (
        f"{found.limit_gib:.1f} of {answer.gpu.memory_gib:.1f} GiB: weights {found.weights_gib:.1f}, activations "
        f"{found.activations_gib:.1f}, overhead {found.overhead_gib:.1f}"
    )


def _cache(found: ServerEstimate) -> str:
    text = f"{max(0.0, found.cache_gib):.1f} GiB ({max(0.0, found.low_gib):.1f} to {max(0.0, found.high_gib):.1f}) for "
    text += f"{found.tokens:,} tokens of {found.bytes_per_token / 1024:.3g} KiB"
    if found.need_gib:
        text += f"; {found.need_gib:.1f} for one request of full length, {found.concurrency:.3g} at the same time"
    return text


def _sentence(answer: CheckedServer) -> str:
    found = answer.estimate
    if found.verdict is ServerVerdict.FITS and answer.server.length:
        return "fits"
    if found.verdict is ServerVerdict.FITS:
        return (
            f"fits with requests of up to {found.longest:,} tokens; the server does not start if the context is longer"
        )
    text = "may not start" if found.verdict is ServerVerdict.TIGHT else "does not fit"
    if found.longest:
        text += f"; a length of {found.longest:,} tokens does"
    if answer.smallest is not None:
        text += f"; tensor parallelism over {answer.smallest.tensor} GPUs fits"
    return text


def server_json(answer: CheckedServer) -> dict[str, Any]:
    """Return the answer as plain values: GiB of one GPU, rounded to a thousandth."""
    server, found = answer.server, answer.estimate
    return {
        "container": answer.name,
        "model": server.architecture.name,
        "engine": server.engine.value,
        "product": answer.gpu.product,
        "gpus": server.gpus,
        "fits": found.verdict is ServerVerdict.FITS,
        "verdict": found.verdict.value,
        "weights_gib": round(found.weights_gib, 3),
        "activations_gib": round(found.activations_gib, 3),
        "overhead_gib": round(found.overhead_gib, 3),
        "cache_gib": round(found.cache_gib, 3),
        "low_gib": round(found.low_gib, 3),
        "high_gib": round(found.high_gib, 3),
        "need_gib": round(found.need_gib, 3),
        "length": server.length or None,
        "tokens": found.tokens,
        "concurrency": round(found.concurrency, 3) if server.length else None,
        "longest": found.longest,
        "smallest_tensor": answer.smallest.tensor if answer.smallest is not None else None,
        "warnings": list(answer.warnings),
    }
