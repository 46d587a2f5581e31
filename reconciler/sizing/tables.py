"""The tables that ship with the package, read when they are first used."""

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.sizing.gpus import GpuTable

if TYPE_CHECKING:  # every plan creates the tables, few read them
    from reconciler.launch import FlagTable
    from reconciler.sizing.models import ModelTable


class SizingTables:
    """Models, GPUs and the flags of frameworks. `read` returns the bytes of a shipped file by its path."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read

    @cached_property
    def models(self) -> "ModelTable":
        """Architectures by the names of models."""
        from reconciler.sizing.models import ModelTable  # noqa: PLC0415 - only sizing needs it

        return ModelTable(self._read("data/models.json"))

    def with_families(self) -> "SizingTables":
        """Return the tables where a model that nobody knows has the architecture of its family at its size."""
        tables = copy(self)
        tables.models = self.models.with_families()
        return tables

    @cached_property
    def gpus(self) -> GpuTable:
        """GPUs by the names of products."""
        return GpuTable(self._read("data/gpus.json"))

    @cached_property
    def flags(self) -> "FlagTable":
        """The effects of the frameworks' flags on memory."""
        from reconciler.launch import FlagTable  # noqa: PLC0415 - as above

        return FlagTable(self._read("data/flags.json"))
