"""Read YAML and JSON files as Kubernetes does, with the place of every value; write objects as YAML."""

from reconciler.kube.yaml.document import Document, Reading
from reconciler.kube.yaml.parser import Limits
from reconciler.kube.yaml.reader import read, read_written
from reconciler.kube.yaml.scalars import is_ambiguous, is_string
from reconciler.kube.yaml.writer import write

__all__ = ["Document", "Limits", "Reading", "is_ambiguous", "is_string", "read", "read_written", "write"]
