"""The shipped tables of models and GPUs."""

from reconciler import resources
from reconciler.sizing.tables import SizingTables

TABLES = SizingTables(resources.read)
MODEL_TABLE, GPU_TABLE = TABLES.models, TABLES.gpus
