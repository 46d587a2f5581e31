"""Offline validation as a strict API server does it: fields, types, enums, formats, quantities, names.

`jsonschema-rs` validates against strict schemas made from the server's own OpenAPI; rules that OpenAPI cannot express
follow in code, and rules of custom kinds in CEL. `tests/cluster/test_agreement.py` compares the result with a real
server. Not evaluated: admission webhooks, and whatever depends on the state of a cluster.
"""

from reconciler.kube.schemas.catalogue import Catalogue, KindName
from reconciler.kube.schemas.sources import Bundle, Served

__all__ = ["Bundle", "Catalogue", "KindName", "Served"]
