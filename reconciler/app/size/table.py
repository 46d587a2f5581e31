"""Predict the memory of each run in a table."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.sizing.memory import estimate, fits
from reconciler.core.sizing.run_table import parse_run
from reconciler.core.sizing.tables import SizingTables
from reconciler.errors import ConfigError, printable
from reconciler.outputs.sizing.report import row_json


def predict_table(raw: bytes, path: str, tables: SizingTables, *, safety: float) -> Iterator[dict[str, Any]]:
    """Yield the prediction for each row of a CSV table; a row that cannot be read yields its `error`.

    path: where the table comes from, for messages.
    safety: memory to keep free, as a fraction.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    names = reader.fieldnames or ()
    if "model" not in names:
        hint = "docs/sizing.md lists the columns: id, model, method, gpu_model, gpus, seq, per_gpu_batch, ..."
        raise ConfigError(f"{path}: the table has no column `model`", hint=hint)
    for name, columns in Counter(names).items():
        if name and columns > 1:
            raise ConfigError(f"{path}: the table has two columns `{printable(name)}`", hint="remove one of them")
    try:
        for number, row in enumerate(reader, 1):
            cells = {key: value for key, value in row.items() if isinstance(key, str) and isinstance(value, str)}
            yield _predict_row(cells.get("id") or str(number), cells, tables, safety)
    except csv.Error as error:
        raise ConfigError(f"{path}: invalid CSV after line {reader.line_num}: {error}") from error


def _predict_row(identity: str, row: Mapping[str, str], tables: SizingTables, safety: float) -> dict[str, Any]:
    parsed = parse_run(row, tables)
    if isinstance(parsed, str):
        return {"id": identity, "error": parsed}
    training, layout, gpu = parsed
    predicted = estimate(training, layout, gpu)
    return row_json(identity, predicted, fits=fits(predicted, gpu, safety))
