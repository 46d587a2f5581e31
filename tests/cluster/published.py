"""The schemas of kinds as the API server publishes them."""

from collections.abc import Mapping
from typing import Any

from reconciler.kube.objects import split_api_version
from tests.cluster.server import ApiServer

Body = dict[str, Any]
Schema = Mapping[str, Any]


class Root:
    """The schema of a kind as the server publishes it."""

    def __init__(self, server: ApiServer, body: Body) -> None:
        group, version = split_api_version(body["apiVersion"])
        where = f"apis/{group}/{version}" if group else f"api/{version}"
        self.schemas: Mapping[str, Schema] = server.document(where)["components"]["schemas"]
        wanted = {"group": group, "version": version, "kind": body["kind"]}
        self.schema = next(
            schema
            for schema in self.schemas.values()
            if wanted in (schema.get("x-kubernetes-group-version-kind") or ()) and "properties" in schema
        )

    def resolved(self, schema: Schema) -> Schema:
        """Return a schema without `$ref` and `allOf` of one."""
        while "$ref" in schema or len(schema.get("allOf", ())) == 1:
            reference = schema.get("$ref") or schema["allOf"][0].get("$ref", "")
            schema = self.schemas[reference.rpartition("/")[2]]
        return schema
