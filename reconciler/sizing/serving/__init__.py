"""Servers of language models (vLLM, SGLang): what a container serves, and whether it fits its GPUs.

`find_servers` reads the containers of a document, `estimate_server` predicts the memory of one GPU, and `judge_servers`
warns of what does not fit.
"""

from reconciler.sizing.serving.containers import FoundServer, find_servers
from reconciler.sizing.serving.judge import judge_servers
from reconciler.sizing.serving.line import ParsedServer, parse_server
from reconciler.sizing.serving.memory import ServerEstimate, ServerVerdict, estimate_server
from reconciler.sizing.serving.server import Server, ServingEngine, WeightType

__all__ = [
    "FoundServer",
    "ParsedServer",
    "Server",
    "ServerEstimate",
    "ServerVerdict",
    "ServingEngine",
    "WeightType",
    "estimate_server",
    "find_servers",
    "judge_servers",
    "parse_server",
]
