"""Learn from a running API server what it makes of objects: defaults, dropped empty values, canonical quantities.

Objects are applied without effect, and compared with what comes back. A field that is added with the same value
wherever its parent occurs without it is a default; one that comes back with different values is not. The result has no
trace of the objects: `spec.containers[]` is each item of that list.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from reconciler.kube.quantities import same_quantity
from tests.cluster.client import Client

_MADE = frozenset(
    ("namespace", "uid", "creationTimestamp", "managedFields", "generation", "resourceVersion", "status", "selfLink")
)
"""Fields that differ from one request to the next, or that no admission sees."""
_FREE = frozenset(("labels", "annotations", "data", "stringData", "limits", "requests", "hard", "capacity", "overhead",
                   "nodeSelector", "matchLabels", "selector"))  # fmt: skip
"""Maps whose keys are no fields."""
_EMPTY: tuple[Any, ...] = ("", [], {}, 0, False)

_RICH = """
serviceAccountName: default
hostNetwork: false
hostPID: false
hostIPC: false
nodeSelector: {}
tolerations: []
imagePullSecrets: []
initContainers: []
hostAliases: []
nodeName: ""
hostname: ""
subdomain: ""
priorityClassName: ""
securityContext: {}
volumes:
  - {name: a, emptyDir: {}}
  - {name: b, configMap: {name: c, items: []}}
  - {name: c, secret: {secretName: s}}
  - {name: d, hostPath: {path: /d}}
  - {name: e, projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: c}}]}}
  - {name: f, downwardAPI: {items: [{path: n, fieldRef: {fieldPath: metadata.name}}]}}
  - {name: g, persistentVolumeClaim: {claimName: p, readOnly: false}}
  - {name: h, nfs: {server: s, path: /, readOnly: false}}
  - {name: k, iscsi: {targetPortal: s, iqn: "iqn.2001-04.com.example:a", lun: 0, readOnly: false}}
  - {name: l, cephfs: {monitors: [s], readOnly: false}}
  - {name: m, rbd: {monitors: [s], image: i, readOnly: false}}
  - {name: i, emptyDir: {medium: "", sizeLimit: 1024Mi}}
  - name: j
    ephemeral:
      volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}
containers:
  - name: a
    image: registry.example.com/a:1
    args: []
    command: []
    envFrom: []
    workingDir: ""
    stdin: false
    stdinOnce: false
    tty: false
    securityContext: {privileged: false, capabilities: {add: [], drop: []}, runAsUser: 0}
    env:
      - {name: A, value: ""}
      - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      - {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}
      - {name: D, valueFrom: {resourceFieldRef: {containerName: a, resource: limits.cpu}}}
    ports: [{containerPort: 80}, {containerPort: 81, name: "", hostPort: 0}]
    resources: {limits: {cpu: "0.5", memory: 1024Mi}, requests: {cpu: "0.25", memory: 512Ki}}
    volumeMounts: [{name: a, mountPath: /a, readOnly: false, subPath: ""}]
    livenessProbe: {httpGet: {path: /, port: 80}, initialDelaySeconds: 0}
    readinessProbe: {tcpSocket: {port: 80}}
    startupProbe: {exec: {command: [a]}}
    lifecycle: {preStop: {httpGet: {path: /, port: 80}}, postStart: {exec: {command: [a]}}}
  - {name: b, image: b}
  - name: c
    image: c
    livenessProbe: {tcpSocket: {port: 80}}
    readinessProbe: {httpGet: {port: 80}}
    startupProbe: {httpGet: {port: 80}}
    lifecycle: {preStop: {tcpSocket: {port: 80}}, postStart: {httpGet: {port: 80}}}
  - name: d
    image: d
    livenessProbe: {grpc: {port: 1}}
    readinessProbe: {grpc: {port: 1}}
    startupProbe: {grpc: {port: 1}}
    lifecycle: {preStop: {httpGet: {port: 80}}}
  - {name: e, image: e, livenessProbe: {httpGet: {port: 80}}}
"""
_PLAIN = "containers: [{name: a, image: a}]"
_INITIAL = f"""
initContainers: [{{name: b, image: b, args: [], command: [], envFrom: [], stdin: false, stdinOnce: false, tty: false}}]
{_PLAIN}
"""
_MORE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: recreated}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: on-delete}
spec:
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: parallel}
spec:
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}
---
apiVersion: v1
kind: Service
metadata: {name: named}
spec: {type: ExternalName, externalName: a.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {}, ports: [{port: 80, name: ""}]}
---
apiVersion: v1
kind: Service
metadata: {name: plain}
spec: {selector: {a: b}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claimed}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "1073741824"}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stored}
spec:
  serviceName: ""
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}
  volumeClaimTemplates:
    - metadata: {name: d, labels: {}, annotations: {}}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}
"""
_DEVICES = """devices: {requests: [
  {name: a, exactly: {deviceClassName: a}},
  {name: b, exactly: {deviceClassName: a, allocationMode: All}},
  {name: c, firstAvailable: [{name: d, deviceClassName: a}, {name: e, deviceClassName: a, allocationMode: All}]},
]}"""
_BARE = """
apiVersion: v1
kind: ReplicationController
metadata: {name: b}
spec: {template: {metadata: {labels: {app: b}}, spec: {CONTAINERS}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {selector: {matchLabels: {app: a}}, template: TEMPLATE}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a}
spec: {selector: {matchLabels: {app: a}}, template: TEMPLATE}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {selector: {matchLabels: {app: a}}, template: TEMPLATE}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: a}
spec: {template: TEMPLATE}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {template: {metadata: {labels: {}, annotations: {}}, spec: {restartPolicy: Never, CONTAINERS}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec: {schedule: "0 0 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, CONTAINERS}}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {a: b}, ports: [{port: 81}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: a, parameters: {}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}, spec: {}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: a}
spec: {capacity: {storage: 1024Mi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, roleRef: {kind: Role, name: a}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: a}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec: {DEVICES}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: a}
spec: {spec: {DEVICES}}
"""
_WORDS = {
    "TEMPLATE": "{metadata: {labels: {app: a}, annotations: {}}, spec: {CONTAINERS}}",
    "CONTAINERS": _PLAIN,
    "DEVICES": _DEVICES,
}
for _word, _text in _WORDS.items():
    _BARE = _BARE.replace(_word, _text)
_TEMPLATES = {
    "Pod": (),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
}


def objects(specimens: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield objects that show what a server does: specimens, with empty metadata, and with other pods."""
    for body in (*specimens, *yaml.load_all(f"{_MORE}---{_BARE}", Loader=yaml.CSafeLoader)):
        yield copy.deepcopy(dict(body))
        empty = copy.deepcopy(dict(body))
        empty["metadata"] |= {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
        yield empty
        if body["kind"] in _TEMPLATES and body["apiVersion"] in ("v1", "apps/v1", "batch/v1"):
            for text in (_RICH, _INITIAL, _PLAIN):
                changed = copy.deepcopy(dict(body))
                node: Any = changed
                for part in _TEMPLATES[body["kind"]]:
                    node = node[part]
                node["spec"] = yaml.load(text, Loader=yaml.CSafeLoader)
                if body["kind"] in ("Job", "CronJob"):
                    node["spec"]["restartPolicy"] = "Never"
                yield changed


def learn(client: Client, specimens: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the server does by `apiVersion/kind`; kinds and objects that it refuses teach nothing."""
    asked = [body for body in objects(specimens) if body["kind"] != "CustomResourceDefinition"]
    seen: dict[str, _Kind] = {}
    for number in range(2):  # twice: what is random differs
        named = [{**body, "metadata": {**body["metadata"], "name": f"learn-{number}"}} for body in asked]
        for body, result in zip(named, client.apply_dry_run(named), strict=True):
            if result.ok:
                seen.setdefault(f"{body['apiVersion']}/{body['kind']}", _Kind()).observe(body, result.body, "")
    return {name: kind.rules() for name, kind in sorted(seen.items())}


class _Kind:
    """What was seen of one kind."""

    def __init__(self) -> None:
        self._maps: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
        self._quantities: set[str] = set()

    def observe(self, before: Any, after: Any, path: str) -> None:
        """Compare a value before and after."""
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            is_free = path.rpartition(".")[2] in _FREE
            if not is_free:
                self._maps.setdefault(path, []).append((before, after))
            for key in before.keys() & after.keys():
                self.observe(before[key], after[key], f"{path}.{'*' if is_free else key}".removeprefix("."))
        elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
            for one, other in zip(before, after, strict=False):  # a server appends
                self.observe(one, other, f"{path}[]")
        elif (type(before), before) != (type(after), after) and same_quantity(before, after):
            self._quantities.add(path)

    def rules(self) -> dict[str, Any]:
        """Return what is the same wherever it was seen."""
        adds: dict[str, dict[str, Any]] = {}
        drops: dict[str, list[str]] = {}
        for path, pairs in sorted(self._maps.items()):
            for key in sorted({key for before, after in pairs for key in (*before, *after)} - _MADE):
                missing = [after.get(key, _MADE) for before, after in pairs if key not in before]
                if missing and missing[0] is not _MADE and all(value == missing[0] for value in missing):
                    adds.setdefault(path, {})[key] = missing[0]
                empty = [key in after for before, after in pairs if _is_empty(before.get(key))]
                if empty and not any(empty):
                    drops.setdefault(path, []).append(key)
        return {"adds": adds, "drops": drops, "quantities": sorted(self._quantities)}


def _is_empty(value: Any) -> bool:
    return value is not None and any(type(value) is type(one) and value == one for one in _EMPTY)
