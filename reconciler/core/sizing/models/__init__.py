"""Models: the shipped table of architectures, and the parser for any other `config.json`."""

from reconciler.core.sizing.models.config import parse_model_config
from reconciler.core.sizing.models.table import ModelTable

__all__ = ["ModelTable", "parse_model_config"]
