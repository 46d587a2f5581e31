"""The registry of built-in kinds: one row per family."""

from reconciler.core.kinds.appwrapper import KINDS as APPWRAPPER
from reconciler.core.kinds.argo import KINDS as ARGO
from reconciler.core.kinds.autoscaling import KINDS as AUTOSCALING
from reconciler.core.kinds.controllers import KINDS as CONTROLLERS
from reconciler.core.kinds.dra import KINDS as DRA
from reconciler.core.kinds.health import KINDS as HEALTH
from reconciler.core.kinds.jobset import KINDS as JOBSET
from reconciler.core.kinds.kai import KINDS as KAI
from reconciler.core.kinds.kaito import KINDS as KAITO
from reconciler.core.kinds.kind import Kinds
from reconciler.core.kinds.kserve import KINDS as KSERVE
from reconciler.core.kinds.kubeflow import KINDS as KUBEFLOW
from reconciler.core.kinds.kueue import KINDS as KUEUE
from reconciler.core.kinds.kustomize import KINDS as KUSTOMIZE
from reconciler.core.kinds.lws import KINDS as LWS
from reconciler.core.kinds.nvidia import KINDS as NVIDIA
from reconciler.core.kinds.own import KINDS as OWN
from reconciler.core.kinds.ray import KINDS as RAY
from reconciler.core.kinds.serving import KINDS as SERVING
from reconciler.core.kinds.spark import KINDS as SPARK
from reconciler.core.kinds.torchrun import KINDS as TORCHRUN
from reconciler.core.kinds.virtual import KINDS as VIRTUAL
from reconciler.core.kinds.volcano import KINDS as VOLCANO
from reconciler.core.kinds.workloads import KINDS as WORKLOADS

BUILT_IN = Kinds(
    *(TORCHRUN, WORKLOADS, KUBEFLOW, RAY, JOBSET, LWS, APPWRAPPER, VOLCANO, KUEUE, KAI, OWN, HEALTH, KUSTOMIZE),
    *(KSERVE, NVIDIA, ARGO, SPARK, KAITO, SERVING, CONTROLLERS, VIRTUAL, DRA, AUTOSCALING),
)
"""Every kind that ships with the package. Of two kinds of one name, the first has no group in its file names."""
