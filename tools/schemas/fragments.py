"""Fragments of JSON Schema for the values that an API server validates.

Sources: k8s.io/apimachinery/pkg/util/validation, pkg/apis/*/validation of Kubernetes 1.37.
"""

from collections.abc import Mapping

from reconciler.kube.patterns import (
    LABEL_KEY_PATTERN,
    LABEL_PATTERN,
    LABEL_VALUE_PATTERN,
    LETTER_LABEL_PATTERN,
    MIXED_LABEL_PATTERN,
    SUBDOMAIN_PATTERN,
)
from reconciler.kube.schemas.messages import (
    ABSOLUTE_PATTERN,
    CONFIG_KEY_PATTERN,
    CONTAINER_RESOURCE_PATTERN,
    PORT_NAME_PATTERN,
)
from reconciler.kube.schemas.schema import Schema

QUOTA_RESOURCE_PATTERN = (
    r"^(cpu|memory|storage|ephemeral-storage|pods|services|services\.(nodeports|loadbalancers)|replicationcontrollers"
    r"|resourcequotas|secrets|configmaps|persistentvolumeclaims|(requests|limits)\..+|hugepages-.+|.+/.+)$"
)

LABEL: Schema = {"pattern": LABEL_PATTERN, "maxLength": 63}
SUBDOMAIN: Schema = {"pattern": SUBDOMAIN_PATTERN, "maxLength": 253}
SUBDOMAIN_OR_EMPTY: Schema = {"pattern": f"^$|{SUBDOMAIN_PATTERN}", "maxLength": 253}
HOST: Schema = {
    "pattern": r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "maxLength": 253,
}
LETTER_LABEL: Schema = {"pattern": LETTER_LABEL_PATTERN, "maxLength": 63}
MIXED_LABEL: Schema = {"pattern": MIXED_LABEL_PATTERN, "maxLength": 63}
VALUE: Schema = {"pattern": LABEL_VALUE_PATTERN, "maxLength": 63}
KEY: Schema = {"pattern": LABEL_KEY_PATTERN, "maxLength": 317}
LABELS: Schema = {"propertyNames": KEY, "additionalProperties": VALUE}
PORT_NAME: Schema = {"pattern": PORT_NAME_PATTERN, "maxLength": 15}
PORT: Schema = {"minimum": 1, "maximum": 65535}
PORT_OR_NAME: Schema = PORT | PORT_NAME
SOME: Schema = {"minItems": 1}
TEXT: Schema = {"minLength": 1}
POSITIVE: Schema = {"minimum": 1}
NATURAL: Schema = {"minimum": 0}
ABSOLUTE: Schema = {"pattern": ABSOLUTE_PATTERN}
CONFIG_KEY: Schema = {"pattern": CONFIG_KEY_PATTERN, "maxLength": 253}
USER: Schema = {"minimum": 0, "maximum": 2**31 - 1}
MODE: Schema = {"minimum": 0, "maximum": 0o777}
AMOUNT: Schema = {
    "minimum": 0,
    "pattern": r"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?\s*$",
}
STORAGE: Schema = {
    "required": ["storage"],
    "properties": {"storage": {"type": ["string", "number"], "format": "quantity"} | AMOUNT},
}
ADDRESS: Schema = {"pattern": r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*)$"}
AMOUNTS: Schema = {"additionalProperties": AMOUNT}
CONTAINER_AMOUNTS: Schema = AMOUNTS | {"propertyNames": {"pattern": CONTAINER_RESOURCE_PATTERN}}
CLAIM_MODES: Schema = SOME | {"items": {"enum": ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]}}
RBAC: Schema = {"enum": ["rbac.authorization.k8s.io", "", None]}
RETENTION: Schema = {"enum": ["Delete", "Retain", "", None]}
ROLLOUT: Schema = {"minimum": 0, "pattern": "^[0-9]+%$"}


def holds(field: str, schema: Schema) -> Schema:
    """Require `field`, with a value that matches `schema`."""
    return {"type": "object", "required": [field], "properties": {field: schema}}


def one_of(*fields: str) -> Schema:
    """Require exactly one of these fields."""
    return {"oneOf": [{"type": "null"}, *(holds(field, {"not": {"type": "null"}}) for field in fields)]}


def any_of(*fields: str) -> Schema:
    """Require at least one of these lists or mappings to have an item."""
    full = {"type": ["array", "object"], "minItems": 1, "minProperties": 1}
    return {"anyOf": [holds(field, full) for field in fields]}


HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
SELECTOR_REQUIREMENT: Schema = {
    "key": KEY,
    "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    "values": {"items": VALUE},
}
WITH_VALUES: Schema = {
    "if": {"required": ["operator"], "properties": {"operator": {"enum": ["In", "NotIn"]}}},
    "then": {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}},
    "else": {"properties": {"values": {"maxItems": 0}}},
}
PROBE: Mapping[str, Schema] = dict.fromkeys(
    ("periodSeconds", "timeoutSeconds", "initialDelaySeconds", "failureThreshold", "successThreshold"), NATURAL
)
VOLUME_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
LIMITED: Schema = {"propertyNames": {"pattern": f"^storage$|{CONTAINER_RESOURCE_PATTERN}"}}
