"""Models: a table of known architectures, and the reading of any other from its `config.json`."""

from reconciler.core.sizing.models.adapters import adapter_parameters, default_targets
from reconciler.core.sizing.models.names import all_models, closest_models, find_architecture
from reconciler.core.sizing.models.reading import architecture_of

__all__ = [
    "adapter_parameters",
    "all_models",
    "architecture_of",
    "closest_models",
    "default_targets",
    "find_architecture",
]
