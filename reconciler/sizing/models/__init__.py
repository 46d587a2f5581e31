"""Models: the shipped table of architectures, and the parser for any other `config.json`."""

from reconciler.sizing.models.table import ModelTable, parse_model_config

__all__ = ["ModelTable", "parse_model_config"]
