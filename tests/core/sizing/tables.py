"""The shipped tables of models and GPUs."""

from reconciler.adapters import bundle
from reconciler.core.sizing.tables import SizingTables

TABLES = SizingTables(bundle.read)
MODEL_TABLE, GPU_TABLE = TABLES.models, TABLES.gpus
