"""What the server checks of single fields in Go, and its OpenAPI does not say: fragments of JSON Schema by component.

Source: pkg/apis/*/validation/*.go of Kubernetes 1.36; `tests/cluster/test_agreement.py` compares with a running server.
Applied when the shipped schemas are made, so that a run pays nothing for it.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LETTER_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
MIXED_LABEL = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
)
PORT_NAME = r"^([0-9]+-)*[0-9]*[a-z](-?[a-z0-9])*$"
CONFIG_KEY = r"^[-._a-zA-Z0-9]+$"
CONTAINER_RESOURCE = r"^(cpu|memory|ephemeral-storage|hugepages-.+|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_.]+)$"
QUOTA_RESOURCE = (
    r"^(cpu|memory|storage|ephemeral-storage|pods|services|services\.(nodeports|loadbalancers)|replicationcontrollers"
    r"|resourcequotas|secrets|configmaps|persistentvolumeclaims|(requests|limits)\..+|hugepages-.+|.+/.+)$"
)
ABSOLUTE = r"^/"
_CRON_FIELD = r"[-*/,?0-9A-Za-z]+"
_SCHEDULE = (
    rf"^\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)|{_CRON_FIELD}(\s+{_CRON_FIELD}){{4}})\s*$"
)

_label: Schema = {"pattern": LABEL, "maxLength": 63}
_subdomain: Schema = {"pattern": SUBDOMAIN, "maxLength": 253}
_subdomain_or_empty: Schema = {"pattern": f"^$|{SUBDOMAIN}", "maxLength": 253}
_letter_label: Schema = {"pattern": LETTER_LABEL, "maxLength": 63}
_mixed_label: Schema = {"pattern": MIXED_LABEL, "maxLength": 63}
KIND_NAME = _mixed_label
_value: Schema = {"pattern": LABEL_VALUE, "maxLength": 63}
_key: Schema = {"pattern": LABEL_KEY, "maxLength": 317}
_labels: Schema = {"propertyNames": _key, "additionalProperties": _value}
_port_name: Schema = {"pattern": PORT_NAME, "maxLength": 15}
_port: Schema = {"minimum": 1, "maximum": 65535}
_port_or_name: Schema = _port | _port_name
_some: Schema = {"minItems": 1}
_text: Schema = {"minLength": 1}
_positive: Schema = {"minimum": 1}
_natural: Schema = {"minimum": 0}
_absolute: Schema = {"pattern": ABSOLUTE}
_config_key: Schema = {"pattern": CONFIG_KEY, "maxLength": 253}
_user: Schema = {"minimum": 0, "maximum": 2**31 - 1}
_mode: Schema = {"minimum": 0, "maximum": 0o777}
_amount: Schema = {
    "minimum": 0,
    "pattern": r"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?\s*$",
}
_storage: Schema = {
    "required": ["storage"],
    "properties": {"storage": {"type": ["string", "number"], "format": "quantity"} | _amount},
}
_address: Schema = {"pattern": r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*)$"}
_amounts: Schema = {"additionalProperties": _amount}
_container_amounts: Schema = _amounts | {"propertyNames": {"pattern": CONTAINER_RESOURCE}}
_claim_modes: Schema = _some | {
    "items": {"enum": ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]}
}
_rbac: Schema = {"enum": ["rbac.authorization.k8s.io", "", None]}
_rollout: Schema = {"minimum": 0, "pattern": "^[0-9]+%$"}


def _needs(field: str, value: str, *required: str) -> Schema:
    """If `field` has this value, `required` must be given."""
    return {
        "if": {"required": [field], "properties": {field: {"const": value}}},
        "then": {"required": list(required)},
    }


def _with(field: str, held: Schema) -> Schema:
    return {"type": "object", "required": [field], "properties": {field: held}}


def _one_of(*fields: str) -> Schema:
    """Exactly one of these fields holds something."""
    return {"oneOf": [{"type": "null"}, *(_with(field, {"not": {"type": "null"}}) for field in fields)]}


def _any_of(*fields: str) -> Schema:
    """At least one of these lists or mappings holds something."""
    full = {"type": ["array", "object"], "minItems": 1, "minProperties": 1}
    return {"anyOf": [_with(field, full) for field in fields]}


_handlers = ("exec", "grpc", "httpGet", "tcpSocket")
_selector_requirement: Schema = {
    "key": _key,
    "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    "values": {"items": _value},
}
_with_values: Schema = {
    "if": {"required": ["operator"], "properties": {"operator": {"enum": ["In", "NotIn"]}}},
    "then": {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}},
    "else": {"properties": {"values": {"maxItems": 0}}},
}
_probe: Mapping[str, Schema] = dict.fromkeys(
    ("periodSeconds", "timeoutSeconds", "initialDelaySeconds", "failureThreshold", "successThreshold"), _natural
)
_volume_sources = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
_limited: Schema = {"propertyNames": {"pattern": f"^storage$|{CONTAINER_RESOURCE}"}}

FIELDS: Mapping[str, Mapping[str, Schema]] = {
    # --- any object
    "LabelSelector": {"matchLabels": _labels},
    "LabelSelectorRequirement": _selector_requirement,
    # --- pods
    "PodSpec": {
        "activeDeadlineSeconds": _positive | {"maximum": 2**31 - 1},
        "hostname": _label,
        "subdomain": _label | {"pattern": f"^$|{LABEL}"},
        "nodeSelector": _labels,
        "serviceAccountName": _subdomain_or_empty,
        "runtimeClassName": _subdomain,
        "priorityClassName": _subdomain_or_empty,
    },
    "Container": {
        "name": _label,
    },
    "ContainerPort": {
        "name": _port_name | {"pattern": f"^$|{PORT_NAME}"},
        "containerPort": _port,
        "hostPort": {"minimum": 0, "maximum": 65535},
    },
    "EnvVar": {"name": {"pattern": r"^[ -<>-~]+$"}},
    "EnvFromSource": {"prefix": {"pattern": r"^[ -<>-~]*$"}},
    "ConfigMapEnvSource": {"name": _subdomain},
    "SecretEnvSource": {"name": _subdomain},
    "ConfigMapKeySelector": {"name": _subdomain, "key": _config_key},
    "SecretKeySelector": {"name": _subdomain, "key": _config_key},
    "ResourceRequirements": {"limits": _container_amounts, "requests": _container_amounts},
    "VolumeMount": {"mountPath": _text},
    "Volume": {"name": _label},
    "EmptyDirVolumeSource": {"sizeLimit": _amount},
    "ConfigMapVolumeSource": {"name": _text, "defaultMode": _mode},
    "SecretVolumeSource": {"secretName": _text, "defaultMode": _mode},
    "DownwardAPIVolumeSource": {"defaultMode": _mode},
    "ProjectedVolumeSource": {"defaultMode": _mode},
    "KeyToPath": {"mode": _mode, "path": {"pattern": r"^[^/]"}},
    "HTTPGetAction": {"port": _port_or_name},
    "TCPSocketAction": {"port": _port_or_name},
    "GRPCAction": {"port": _port},
    "Probe": _probe,
    "Toleration": {"key": {"pattern": f"^$|{LABEL_KEY}", "maxLength": 317}},
    "NodeSelectorRequirement": {"key": _key, "values": {"items": _value}},
    "PodAffinityTerm": {"topologyKey": _key},
    "WeightedPodAffinityTerm": {"weight": {"minimum": 1, "maximum": 100}},
    "PreferredSchedulingTerm": {"weight": {"minimum": 1, "maximum": 100}},
    "TopologySpreadConstraint": {"maxSkew": _positive, "minDomains": _positive},
    "PodSecurityContext": {"runAsUser": _user, "runAsGroup": _user, "fsGroup": _user},
    "SecurityContext": {"runAsUser": _user, "runAsGroup": _user},
    "HostAlias": {"ip": _address, "hostnames": {"items": {"type": "string"} | _subdomain}},
    "ObjectFieldSelector": {
        "fieldPath": {
            "pattern": r"^(metadata\.(name|namespace|uid|labels|annotations|(labels|annotations)\['.*'\])"
            r"|spec\.(nodeName|serviceAccountName|host)|status\.(hostIPs?|podIPs?|phase))$"
        }
    },
    # --- batch
    "JobSpec": {
        "completions": _natural,
        "parallelism": _natural,
        "backoffLimit": _natural,
        "backoffLimitPerIndex": _natural,
        "maxFailedIndexes": _natural,
        "ttlSecondsAfterFinished": _natural,
        "activeDeadlineSeconds": _natural,
    },
    "PodFailurePolicyOnExitCodesRequirement": {"values": _some},
    "CronJobSpec": {
        "schedule": {"pattern": _SCHEDULE},
        "startingDeadlineSeconds": _natural,
        "successfulJobsHistoryLimit": _natural,
        "failedJobsHistoryLimit": _natural,
        "timeZone": {"pattern": r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"},
    },
    # --- apps
    "DeploymentSpec": {
        "replicas": _natural,
        "minReadySeconds": _natural,
        "revisionHistoryLimit": _natural,
        "progressDeadlineSeconds": _natural,
    },
    "RollingUpdateDeployment": {"maxSurge": _rollout, "maxUnavailable": _rollout},
    "ReplicaSetSpec": {"replicas": _natural, "minReadySeconds": _natural},
    "StatefulSetSpec": {"replicas": _natural, "minReadySeconds": _natural, "serviceName": _subdomain_or_empty},
    "DaemonSetSpec": {"minReadySeconds": _natural},
    "RollingUpdateDaemonSet": {"maxSurge": _rollout, "maxUnavailable": _rollout},
    "MetricSpec": {"type": {"enum": ["ContainerResource", "External", "Object", "Pods", "Resource"]}},
    "NetworkPolicySpec": {"policyTypes": {"items": {"enum": ["Ingress", "Egress"]}}},
    "HorizontalPodAutoscalerSpec": {"minReplicas": _positive, "maxReplicas": _positive},
    "MetricTarget": {"type": {"enum": ["Utilization", "Value", "AverageValue"]}, "averageUtilization": _positive},
    "PodDisruptionBudgetSpec": {"minAvailable": _rollout, "maxUnavailable": _rollout},
    # --- network
    "ServiceSpec": {
        "selector": _labels,
        "clusterIP": {"pattern": f"^(|None)$|{_address['pattern']}"},
        "healthCheckNodePort": {"minimum": 0, "maximum": 65535},
    },
    "ServicePort": {
        "name": {"pattern": f"^$|{LABEL}", "maxLength": 63},
        "port": _port,
        "targetPort": {"minimum": 0, "maximum": 65535, "pattern": f"^$|{PORT_NAME}", "maxLength": 15},
    },
    "NetworkPolicyPort": {"port": _port_or_name},
    "IngressRule": {
        "host": {
            "pattern": r"^$|^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            "maxLength": 253,
        }
    },
    "HTTPIngressPath": {"path": {"pattern": r"^/|^$"}},
    "IngressServiceBackend": {"name": _label},
    "ServiceBackendPort": {"number": _port},
    # --- storage
    "PersistentVolumeClaimSpec": {"accessModes": _claim_modes, "storageClassName": _subdomain_or_empty},
    "VolumeResourceRequirements": {"requests": _amounts | _storage},
    "PersistentVolumeSpec": {
        "accessModes": _claim_modes,
        "capacity": _amounts | _storage | {"propertyNames": {"enum": ["storage"]}},
        "storageClassName": _subdomain_or_empty,
    },
    "NFSVolumeSource": {"path": _absolute},
    "StorageClass": {"provisioner": {"pattern": f"(?i){LABEL_KEY}"}},
    "RuntimeClass": {"handler": _label},
    # --- quotas
    "ResourceQuotaSpec": {"hard": _amounts | {"propertyNames": {"pattern": QUOTA_RESOURCE}}},
    "LimitRangeItem": {
        **dict.fromkeys(("default", "defaultRequest", "max", "min", "maxLimitRequestRatio"), _limited),
        "type": {"pattern": r"^(Pod|Container|PersistentVolumeClaim|[a-z0-9][-a-z0-9.]*/[-A-Za-z0-9_.]+)$"},
    },
    # --- rights
    "PolicyRule": {"verbs": _some},
    "RoleRef": {"apiGroup": _rbac},
    "Subject": {"kind": {"enum": ["ServiceAccount", "User", "Group"]}},
    # --- admission and definitions
    "ValidatingAdmissionPolicySpec": {
        "matchConstraints": {"required": ["resourceRules"], "properties": {"resourceRules": {"type": "array"} | _some}}
    },
    "Variable": {"name": {"pattern": r"^[_a-zA-Z][_a-zA-Z0-9]*$"}},
    "NamedRuleWithOperations": {
        "apiGroups": _some,
        "apiVersions": _some | {"items": {"type": "string"} | _text},
        "operations": _some | {"items": {"enum": ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]}},
        "resources": _some | {"items": {"type": "string"} | _text},
    },
    "ValidatingAdmissionPolicyBindingSpec": {
        "policyName": _subdomain,
        "validationActions": _some | {"items": {"enum": ["Audit", "Deny", "Warn"]}},
    },
    "CustomResourceDefinitionSpec": {
        "group": _subdomain,
        "scope": {"enum": ["Cluster", "Namespaced"]},
        "versions": _some,
    },
    "CustomResourceDefinitionNames": {
        "plural": _letter_label,
        "singular": _letter_label | {"pattern": f"^$|{LETTER_LABEL}"},
        "kind": _mixed_label,
        "listKind": _mixed_label | {"pattern": f"^$|{MIXED_LABEL}"},
    },
    "CustomResourceDefinitionVersion": {"name": _letter_label},
    "JSONSchemaProps": {
        "type": {"enum": ["array", "boolean", "integer", "number", "object", "string", "", None]},
    },
}
"""By component and field."""

WHOLE: Mapping[str, Schema] = {
    "Probe": _one_of(*_handlers),
    "LifecycleHandler": _one_of("exec", "httpGet", "sleep", "tcpSocket"),
    "LabelSelectorRequirement": _with_values,
    "NodeSelectorRequirement": {
        "if": {"required": ["operator"], "properties": {"operator": {"enum": ["In", "NotIn"]}}},
        "then": {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}},
    },
    "Volume": {"maxProperties": 2},
    "Container": {"required": ["image"]},
    "EnvVarSource": _one_of("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
    "ConfigMapEnvSource": {"required": ["name"]},
    "EnvFromSource": _one_of("configMapRef", "secretRef"),
    "NetworkPolicyPeer": {
        "anyOf": [_with(field, {"type": "object"}) for field in ("ipBlock", "namespaceSelector", "podSelector")]
    },
    "StatefulSet": {"required": ["spec"]},
    "SecretEnvSource": {"required": ["name"]},
    "ConfigMapKeySelector": {"required": ["name"]},
    "SecretKeySelector": {"required": ["name"]},
    "ConfigMapVolumeSource": {"required": ["name"]},
    "SecretVolumeSource": {"required": ["secretName"]},
    "Job": {"required": ["spec"]},
    "Pod": {"required": ["spec"]},
    "Deployment": {"required": ["spec"]},
    "DaemonSet": {"required": ["spec"]},
    "PersistentVolumeClaim": {"required": ["spec"]},
    "PersistentVolume": {"required": ["spec"]},
    "Service": {"required": ["spec"]},
    "Ingress": {"required": ["spec"]},
    "ValidatingAdmissionPolicy": {"required": ["spec"]},
    "PodTemplateSpec": {"required": ["spec"]},
    "JobSpec": _needs("completionMode", "Indexed", "completions"),
    "PersistentVolumeClaimSpec": {"required": ["accessModes", "resources"]},
    "VolumeResourceRequirements": {"required": ["requests"]},
    "PersistentVolumeSpec": {"required": ["accessModes", "capacity"], **_one_of(*_volume_sources)},
    "IngressSpec": _any_of("defaultBackend", "rules"),
    "PolicyRule": {
        "anyOf": [
            {"required": ["nonResourceURLs"], "properties": {"nonResourceURLs": {"type": "array", "minItems": 1}}},
            {
                "required": ["apiGroups", "resources"],
                "properties": {
                    "apiGroups": {"type": "array", "minItems": 1},
                    "resources": {"type": "array", "minItems": 1},
                },
            },
        ]
    },
    "HTTPIngressPath": {
        "if": {"type": "object", "properties": {"pathType": {"enum": ["Exact", "Prefix"]}}},
        "then": {"required": ["path"], "properties": {"path": {"type": "string", "pattern": ABSOLUTE}}},
    },
    "IngressBackend": _one_of("resource", "service"),
    "IngressServiceBackend": {"required": ["port"]},
    "ServiceBackendPort": _one_of("name", "number"),
    "ValidatingAdmissionPolicySpec": {"required": ["matchConstraints"], **_any_of("validations", "auditAnnotations")},
    "Subject": {
        "if": {"type": "object", "properties": {"kind": {"const": "ServiceAccount"}}},
        "then": {"properties": {"name": _subdomain, "apiGroup": {"enum": ["", None]}}},
        "else": {"properties": {"apiGroup": _rbac}},
    },
    "Toleration": {
        "if": {
            "not": {"required": ["key"], "properties": {"key": {"type": "string", "minLength": 1}}},
            "type": "object",
        },
        "then": {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
    },
    "NamedRuleWithOperations": {"required": ["apiGroups", "apiVersions", "operations", "resources"]},
    "ValidatingAdmissionPolicyBinding": {"required": ["spec"]},
    "ValidatingAdmissionPolicyBindingSpec": {"required": ["policyName", "validationActions"]},
    "CustomResourceDefinitionVersion": {"required": ["schema"]},
    "CustomResourceValidation": {"required": ["openAPIV3Schema"]},
}
"""By component: of the object as a whole."""

NOT_EMPTY: frozenset[str] = frozenset(
    {
        # Elsewhere an empty text stands for "not given" in a field that takes one of several words.
        "PersistentVolumeClaimSpec.volumeMode",
        "StorageClass.volumeBindingMode",
        "PriorityClass.preemptionPolicy",
        "NetworkPolicyPort.protocol",
        "ValidatingAdmissionPolicySpec.failurePolicy",
        "JobSpec.completionMode",
    }
)

LAX: frozenset[str] = frozenset(
    {
        # The published schema requires these, the server takes objects without them.
        "LimitRangeSpec.limits",
        "PodFailurePolicy.rules",
        "CustomResourceDefinitionVersion.served",
        "CustomResourceDefinitionVersion.storage",
        "HTTPHeader.value",
        "Sysctl.value",
        "SleepAction.seconds",
        "ISCSIVolumeSource.lun",
        "ISCSIPersistentVolumeSource.lun",
        "ControllerRevision.revision",
        "ResourcePool.generation",
        "CSINodeSpec.drivers",
        "CSIStorageCapacity.storageClassName",
        "TokenRequest.audience",
    }
)
