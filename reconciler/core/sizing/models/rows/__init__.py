"""The table of models, by family."""

from reconciler.core.sizing.models.rows.classic import CLASSIC
from reconciler.core.sizing.models.rows.deepseek import DEEPSEEK
from reconciler.core.sizing.models.rows.google import GOOGLE
from reconciler.core.sizing.models.rows.granite import GRANITE
from reconciler.core.sizing.models.rows.llama import LLAMA
from reconciler.core.sizing.models.rows.microsoft import MICROSOFT
from reconciler.core.sizing.models.rows.mistral import MISTRAL
from reconciler.core.sizing.models.rows.open import OPEN
from reconciler.core.sizing.models.rows.qwen import QWEN
from reconciler.core.sizing.models.rows.row import Row

ROWS: tuple[Row, ...] = (
    *LLAMA,
    *GRANITE,
    *QWEN,
    *MISTRAL,
    *GOOGLE,
    *MICROSOFT,
    *DEEPSEEK,
    *OPEN,
    *CLASSIC,
)
