"""What an API server would say of an object, offline: unknown fields, types, enums, required, formats, quantities.

`jsonschema-rs` decides over closed schemas made from the server's own OpenAPI; a few rules that OpenAPI cannot express
follow in our own code. `tests/cluster/test_agreement.py` compares both with a real server.
Not evaluated: `x-kubernetes-validations` (CEL) of custom kinds, admission webhooks, and anything that needs the objects
that live in a cluster.
"""

from reconciler.core.schemas.archive import Bundle, Served
from reconciler.core.schemas.catalogue import Catalogue, KindName
from reconciler.core.schemas.finding import Finding

__all__ = ["Bundle", "Catalogue", "Finding", "KindName", "Served"]
