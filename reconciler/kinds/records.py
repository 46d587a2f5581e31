"""Kinds whose objects servers and controllers write, and people do not."""

from reconciler.kinds.facts import KindId
from reconciler.kinds.kai import POD_GROUP
from reconciler.kinds.kueue import WORKLOAD
from reconciler.kinds.workloads import NODE

RECORDS: frozenset[KindId] = frozenset(
    {
        NODE,
        POD_GROUP,
        WORKLOAD,
        ("", "Endpoints"),
        ("", "Event"),
        ("apps", "ControllerRevision"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("coordination.k8s.io", "Lease"),
        ("coordination.k8s.io", "LeaseCandidate"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("events.k8s.io", "Event"),
        ("networking.k8s.io", "IPAddress"),
        ("resource.k8s.io", "ResourceSlice"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "CSIStorageCapacity"),
        ("storage.k8s.io", "VolumeAttachment"),
    }
)
