"""The table of models, by family."""

from reconciler.core.sizing.models.rows.granite import GRANITE
from reconciler.core.sizing.models.rows.llama import LLAMA
from reconciler.core.sizing.models.rows.mistral import MISTRAL
from reconciler.core.sizing.models.rows.qwen import QWEN
from reconciler.core.sizing.models.rows.row import Row
from reconciler.core.sizing.models.rows.small import SMALL

ROWS: tuple[Row, ...] = (*LLAMA, *GRANITE, *QWEN, *MISTRAL, *SMALL)
