"""Read YAML and JSON files as Kubernetes does, with the place of every value; write objects as YAML."""

from reconciler.core.documents.document import Document, Reading
from reconciler.core.documents.parser import Limits
from reconciler.core.documents.reader import read, read_written
from reconciler.core.documents.scalars import is_ambiguous, is_string
from reconciler.core.documents.writer import write

__all__ = ["Document", "Limits", "Reading", "is_ambiguous", "is_string", "read", "read_written", "write"]
