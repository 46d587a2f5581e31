"""What an API server validates in Go beyond its OpenAPI, as fragments of JSON Schema by component.

Source: pkg/apis/*/validation/*.go of Kubernetes 1.36. `tests/cluster/test_agreement.py` compares the result with a
running server. The shipped schemas contain these constraints.
"""

from collections.abc import Mapping

from reconciler.kube.patterns import (
    LABEL_KEY_PATTERN,
    LABEL_PATTERN,
    LETTER_LABEL_PATTERN,
    MIXED_LABEL_PATTERN,
    SUBDOMAIN_PATTERN,
)
from reconciler.kube.schemas.messages import ABSOLUTE_PATTERN, PORT_NAME_PATTERN, SCHEDULE_PATTERN
from reconciler.kube.schemas.schema import Schema
from tools.schemas.fragments import (
    ABSOLUTE,
    ADDRESS,
    AMOUNT,
    AMOUNTS,
    CLAIM_MODES,
    CONFIG_KEY,
    CONTAINER_AMOUNTS,
    HANDLERS,
    HOST,
    KEY,
    LABEL,
    LABELS,
    LETTER_LABEL,
    LIMITED,
    MIXED_LABEL,
    MODE,
    NATURAL,
    PORT,
    PORT_NAME,
    PORT_OR_NAME,
    POSITIVE,
    PROBE,
    QUOTA_RESOURCE_PATTERN,
    RBAC,
    RETENTION,
    ROLLOUT,
    SELECTOR_REQUIREMENT,
    SOME,
    STORAGE,
    SUBDOMAIN,
    SUBDOMAIN_OR_EMPTY,
    TEXT,
    USER,
    VALUE,
    VOLUME_SOURCES,
    WITH_VALUES,
    any_of,
    holds,
    one_of,
)

FIELDS: Mapping[str, Mapping[str, Schema]] = {
    # --- any object
    "LabelSelector": {"matchLabels": LABELS},
    "LabelSelectorRequirement": SELECTOR_REQUIREMENT,
    # --- pods
    "PodDNSConfig": {
        "nameservers": {"items": {"type": "string"} | ADDRESS},
        "searches": {
            "items": {"type": "string", "pattern": r"^[a-z0-9_.]([-a-z0-9_.]*[a-z0-9_.])?$", "maxLength": 253}
        },
    },
    "PodReadinessGate": {"conditionType": KEY},
    "Sysctl": {
        "name": {"pattern": r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$", "maxLength": 253}
    },
    "HTTPHeader": {"name": {"pattern": "^[-A-Za-z0-9]+$"}},
    "ResourceFieldSelector": {
        "resource": {"pattern": r"^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)$"}
    },
    "ServiceAccountTokenProjection": {"expirationSeconds": {"minimum": 600, "maximum": 2**32}},
    "CSIVolumeSource": {"driver": {"pattern": f"(?i){SUBDOMAIN_PATTERN}", "maxLength": 63}},
    "PodSpec": {
        "activeDeadlineSeconds": POSITIVE | {"maximum": 2**31 - 1},
        "hostname": LABEL | {"pattern": f"^$|{LABEL_PATTERN}"},
        "subdomain": LABEL | {"pattern": f"^$|{LABEL_PATTERN}"},
        "nodeSelector": LABELS,
        "serviceAccountName": SUBDOMAIN_OR_EMPTY,
        "runtimeClassName": SUBDOMAIN,
        "priorityClassName": SUBDOMAIN_OR_EMPTY,
    },
    "Container": {"name": LABEL},
    "ContainerResizePolicy": {"restartPolicy": {"enum": ["NotRequired", "RestartContainer"]}},
    "ContainerPort": {
        "name": PORT_NAME | {"pattern": f"^$|{PORT_NAME_PATTERN}"},
        "containerPort": PORT,
        "hostPort": {"minimum": 0, "maximum": 65535},
    },
    "EnvVar": {"name": {"pattern": r"^[ -<>-~]+$"}},
    "EnvFromSource": {"prefix": {"pattern": r"^[ -<>-~]*$"}},
    "ConfigMapEnvSource": {"name": SUBDOMAIN},
    "SecretEnvSource": {"name": SUBDOMAIN},
    "ConfigMapKeySelector": {"name": SUBDOMAIN, "key": CONFIG_KEY},
    "SecretKeySelector": {"name": SUBDOMAIN, "key": CONFIG_KEY},
    "ResourceRequirements": {"limits": CONTAINER_AMOUNTS, "requests": CONTAINER_AMOUNTS},
    "VolumeMount": {"mountPath": TEXT},
    "Volume": {"name": LABEL},
    "EmptyDirVolumeSource": {"sizeLimit": AMOUNT},
    "ConfigMapVolumeSource": {"name": TEXT, "defaultMode": MODE},
    "SecretVolumeSource": {"secretName": TEXT, "defaultMode": MODE},
    "DownwardAPIVolumeSource": {"defaultMode": MODE},
    "ProjectedVolumeSource": {"defaultMode": MODE},
    "KeyToPath": {"mode": MODE, "path": {"pattern": r"^[^/]"}},
    "HTTPGetAction": {"port": PORT_OR_NAME},
    "TCPSocketAction": {"port": PORT_OR_NAME},
    "GRPCAction": {"port": PORT},
    "Probe": PROBE,
    "Toleration": {"key": {"pattern": f"^$|{LABEL_KEY_PATTERN}", "maxLength": 317}},
    "NodeSelectorRequirement": {"key": KEY, "values": {"items": VALUE}},
    "PodAffinityTerm": {"topologyKey": KEY},
    "WeightedPodAffinityTerm": {"weight": {"minimum": 1, "maximum": 100}},
    "PreferredSchedulingTerm": {"weight": {"minimum": 1, "maximum": 100}},
    "TopologySpreadConstraint": {"maxSkew": POSITIVE, "minDomains": POSITIVE},
    "PodSecurityContext": {
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "supplementalGroups": {"items": USER},
    },
    "SecurityContext": {"runAsUser": USER, "runAsGroup": USER},
    "HostAlias": {"ip": ADDRESS, "hostnames": {"items": {"type": "string"} | SUBDOMAIN}},
    "ObjectFieldSelector": {
        "fieldPath": {
            "pattern": r"^(metadata\.(name|namespace|uid|labels|annotations|(labels|annotations)\['.*'\])"
            r"|spec\.(nodeName|serviceAccountName|host)|status\.(hostIPs?|podIPs?|phase))$"
        }
    },
    # --- batch
    "JobSpec": {
        "completions": NATURAL,
        "parallelism": NATURAL,
        "backoffLimit": NATURAL,
        "backoffLimitPerIndex": NATURAL,
        "maxFailedIndexes": NATURAL,
        "ttlSecondsAfterFinished": NATURAL,
        "activeDeadlineSeconds": NATURAL,
    },
    "PodFailurePolicy": {"rules": {"maxItems": 20}},
    "PodFailurePolicyOnExitCodesRequirement": {"values": SOME},
    "PodFailurePolicyOnPodConditionsPattern": {"status": {"enum": ["False", "True", "Unknown", "", None]}},
    "CronJobSpec": {
        "schedule": {"pattern": SCHEDULE_PATTERN},
        "startingDeadlineSeconds": NATURAL,
        "successfulJobsHistoryLimit": NATURAL,
        "failedJobsHistoryLimit": NATURAL,
        "timeZone": {"pattern": r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"},
    },
    # --- apps
    "DeploymentSpec": {
        "replicas": NATURAL,
        "minReadySeconds": NATURAL,
        "revisionHistoryLimit": NATURAL,
        "progressDeadlineSeconds": NATURAL,
    },
    "RollingUpdateDeployment": {"maxSurge": ROLLOUT, "maxUnavailable": ROLLOUT},
    "ReplicaSetSpec": {"replicas": NATURAL, "minReadySeconds": NATURAL},
    "StatefulSetSpec": {"replicas": NATURAL, "minReadySeconds": NATURAL, "serviceName": SUBDOMAIN_OR_EMPTY},
    "StatefulSetOrdinals": {"start": NATURAL},
    "StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": RETENTION, "whenScaled": RETENTION},
    "RollingUpdateStatefulSetStrategy": {"maxUnavailable": ROLLOUT, "partition": NATURAL},
    "DaemonSetSpec": {"minReadySeconds": NATURAL, "revisionHistoryLimit": NATURAL},
    "RollingUpdateDaemonSet": {"maxSurge": ROLLOUT, "maxUnavailable": ROLLOUT},
    "MetricSpec": {"type": {"enum": ["ContainerResource", "External", "Object", "Pods", "Resource"]}},
    "NetworkPolicySpec": {"policyTypes": {"items": {"enum": ["Ingress", "Egress"]}}},
    "HorizontalPodAutoscalerSpec": {"minReplicas": POSITIVE, "maxReplicas": POSITIVE},
    "HPAScalingRules": {
        "stabilizationWindowSeconds": {"minimum": 0, "maximum": 3600},
        "selectPolicy": {"enum": ["Disabled", "Max", "Min", None]},
        "policies": SOME,
    },
    "HPAScalingPolicy": {
        "type": {"enum": ["Percent", "Pods"]},
        "value": POSITIVE,
        "periodSeconds": {"minimum": 1, "maximum": 1800},
    },
    "MetricTarget": {"type": {"enum": ["Utilization", "Value", "AverageValue"]}, "averageUtilization": POSITIVE},
    "PodDisruptionBudgetSpec": {"minAvailable": ROLLOUT, "maxUnavailable": ROLLOUT},
    # --- network
    "ServiceSpec": {
        "selector": LABELS,
        "clusterIP": {"pattern": f"^(|None)$|{ADDRESS['pattern']}"},
        "healthCheckNodePort": {"minimum": 0, "maximum": 65535},
        "ipFamilies": {"uniqueItems": True},
    },
    "ServicePort": {
        "name": {"pattern": f"^$|{LABEL_PATTERN}", "maxLength": 63},
        "port": PORT,
        "targetPort": {"minimum": 0, "maximum": 65535, "pattern": f"^$|{PORT_NAME_PATTERN}", "maxLength": 15},
    },
    "ClientIPConfig": {"timeoutSeconds": {"minimum": 1, "maximum": 86400}},
    "NetworkPolicyPort": {"port": PORT_OR_NAME, "endPort": PORT},
    "IngressRule": {"host": HOST | {"pattern": f"^$|{HOST['pattern']}"}},
    "IngressTLS": {"hosts": {"items": {"type": "string"} | HOST}, "secretName": SUBDOMAIN_OR_EMPTY},
    "HTTPIngressPath": {"path": {"pattern": r"^/|^$"}},
    "IngressServiceBackend": {"name": LABEL},
    "ServiceBackendPort": {"number": PORT, "name": PORT_NAME | {"pattern": f"^$|{PORT_NAME_PATTERN}"}},
    # --- storage
    "PersistentVolumeClaimSpec": {"accessModes": CLAIM_MODES, "storageClassName": SUBDOMAIN_OR_EMPTY},
    "VolumeResourceRequirements": {"requests": AMOUNTS | STORAGE},
    "PersistentVolumeSpec": {
        "accessModes": CLAIM_MODES,
        "capacity": AMOUNTS | STORAGE | {"propertyNames": {"enum": ["storage"]}},
        "storageClassName": SUBDOMAIN_OR_EMPTY,
    },
    "NFSVolumeSource": {"path": ABSOLUTE},
    "StorageClass": {"provisioner": {"pattern": f"(?i){LABEL_KEY_PATTERN}"}},
    "RuntimeClass": {"handler": LABEL},
    "CSIDriverSpec": {"nodeAllocatableUpdatePeriodSeconds": {"minimum": 10}},
    # --- quotas
    "ResourceQuotaSpec": {"hard": AMOUNTS | {"propertyNames": {"pattern": QUOTA_RESOURCE_PATTERN}}},
    "LimitRangeItem": {
        **dict.fromkeys(("default", "defaultRequest", "max", "min", "maxLimitRequestRatio"), LIMITED),
        "type": {"pattern": r"^(Pod|Container|PersistentVolumeClaim|[a-z0-9][-a-z0-9.]*/[-A-Za-z0-9_.]+)$"},
    },
    # --- RBAC
    "PolicyRule": {"verbs": SOME},
    "RoleRef": {"apiGroup": RBAC},
    "Subject": {"kind": {"enum": ["ServiceAccount", "User", "Group"]}},
    # --- admission and definitions
    "ValidatingAdmissionPolicySpec": {
        "matchConstraints": {"required": ["resourceRules"], "properties": {"resourceRules": {"type": "array"} | SOME}}
    },
    "Variable": {"name": {"pattern": r"^[_a-zA-Z][_a-zA-Z0-9]*$"}},
    "NamedRuleWithOperations": {
        "apiGroups": SOME,
        "apiVersions": SOME | {"items": {"type": "string"} | TEXT},
        "operations": SOME | {"items": {"enum": ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]}},
        "resources": SOME | {"items": {"type": "string"} | TEXT},
    },
    "ValidatingAdmissionPolicyBindingSpec": {
        "policyName": SUBDOMAIN,
        "validationActions": SOME | {"items": {"enum": ["Audit", "Deny", "Warn"]}},
    },
    "CustomResourceDefinitionSpec": {
        "group": SUBDOMAIN,
        "scope": {"enum": ["Cluster", "Namespaced"]},
        "versions": SOME,
    },
    "CustomResourceDefinitionNames": {
        "plural": LETTER_LABEL,
        "singular": LETTER_LABEL | {"pattern": f"^$|{LETTER_LABEL_PATTERN}"},
        "kind": MIXED_LABEL,
        "listKind": MIXED_LABEL | {"pattern": f"^$|{MIXED_LABEL_PATTERN}"},
    },
    "CustomResourceDefinitionVersion": {"name": LETTER_LABEL},
    "JSONSchemaProps": {
        "type": {"enum": ["array", "boolean", "integer", "number", "object", "string", "", None]},
    },
}
"""Constraints by component and field."""

OBJECTS: Mapping[str, Schema] = {
    "Probe": one_of(*HANDLERS),
    "LifecycleHandler": one_of("exec", "httpGet", "sleep", "tcpSocket"),
    "LabelSelectorRequirement": WITH_VALUES,
    "NodeSelectorRequirement": {
        "if": {"required": ["operator"], "properties": {"operator": {"enum": ["In", "NotIn"]}}},
        "then": {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}},
    },
    "Volume": {"maxProperties": 2},
    "PodSpec": {
        "if": {"type": "object", "required": ["dnsPolicy"], "properties": {"dnsPolicy": {"const": "None"}}},
        "then": {
            "required": ["dnsConfig"],
            "properties": {
                "dnsConfig": {
                    "type": "object",
                    "required": ["nameservers"],
                    "properties": {"nameservers": {"type": "array", "minItems": 1}},
                }
            },
        },
    },
    "PodDNSConfigOption": {"required": ["name"]},
    "ExecAction": {"required": ["command"]},
    "ConfigMapProjection": {"required": ["name"]},
    "SecretProjection": {"required": ["name"]},
    "DownwardAPIVolumeFile": one_of("fieldRef", "resourceFieldRef"),
    "EphemeralVolumeSource": {"required": ["volumeClaimTemplate"]},
    "PodTemplate": {"required": ["template"]},
    "CronJob": {"required": ["spec"]},
    "CronJobSpec": {"required": ["jobTemplate"]},
    "DeploymentSpec": {"required": ["selector", "template"]},
    "DaemonSetSpec": {"required": ["selector", "template"]},
    "StatefulSetSpec": {"required": ["selector", "template"]},
    "HorizontalPodAutoscaler": {"required": ["spec"]},
    "Container": {"required": ["image"]},
    "EnvVarSource": one_of("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
    "ConfigMapEnvSource": {"required": ["name"]},
    "EnvFromSource": one_of("configMapRef", "secretRef"),
    "NetworkPolicyPeer": {
        "anyOf": [holds(field, {"type": "object"}) for field in ("ipBlock", "namespaceSelector", "podSelector")]
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
    "ReplicaSet": {"required": ["spec"]},
    "PersistentVolumeClaim": {"required": ["spec"]},
    "PersistentVolume": {"required": ["spec"]},
    "Service": {"required": ["spec"]},
    "Ingress": {"required": ["spec"]},
    "ValidatingAdmissionPolicy": {"required": ["spec"]},
    "PodTemplateSpec": {"required": ["spec"]},
    "ReplicaSetSpec": {"required": ["selector", "template"]},
    "PersistentVolumeClaimSpec": {"required": ["accessModes", "resources"]},
    "VolumeResourceRequirements": {"required": ["requests"]},
    "PersistentVolumeSpec": {"required": ["accessModes", "capacity"], **one_of(*VOLUME_SOURCES)},
    "IngressSpec": any_of("defaultBackend", "rules"),
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
        "then": {"required": ["path"], "properties": {"path": {"type": "string", "pattern": ABSOLUTE_PATTERN}}},
    },
    "IngressBackend": one_of("resource", "service"),
    "IngressServiceBackend": {"required": ["port"]},
    "ServiceBackendPort": one_of("name", "number"),
    "ValidatingAdmissionPolicySpec": {"required": ["matchConstraints"], **any_of("validations", "auditAnnotations")},
    "Subject": {
        "if": {"type": "object", "properties": {"kind": {"const": "ServiceAccount"}}},
        "then": {"properties": {"name": SUBDOMAIN, "apiGroup": {"enum": ["", None]}}},
        "else": {"properties": {"apiGroup": RBAC}},
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
"""Constraints of whole objects, by component."""

NOT_EMPTY: frozenset[str] = frozenset(
    {
        # An empty string means "not set" in every other enum.
        "PersistentVolumeClaimSpec.volumeMode",
        "VolumeMount.mountPropagation",
        "StorageClass.volumeBindingMode",
        "PriorityClass.preemptionPolicy",
        "NetworkPolicyPort.protocol",
        "ValidatingAdmissionPolicySpec.failurePolicy",
        "JobSpec.completionMode",
    }
)

OPTIONAL: frozenset[str] = frozenset(
    {
        # The published schema requires these fields, the server does not.
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
