"""The registry of built-in kinds: one row per family."""

from reconciler.kinds.appwrapper import KINDS as APPWRAPPER
from reconciler.kinds.argo import KINDS as ARGO
from reconciler.kinds.autoscaling import KINDS as AUTOSCALING
from reconciler.kinds.controllers import KINDS as CONTROLLERS
from reconciler.kinds.dra import KINDS as DRA
from reconciler.kinds.health import KINDS as HEALTH
from reconciler.kinds.jobset import KINDS as JOBSET
from reconciler.kinds.kai import KINDS as KAI
from reconciler.kinds.kaito import KINDS as KAITO
from reconciler.kinds.kind import Kinds
from reconciler.kinds.kserve import KINDS as KSERVE
from reconciler.kinds.kubeflow import KINDS as KUBEFLOW
from reconciler.kinds.kueue import KINDS as KUEUE
from reconciler.kinds.kustomize import KINDS as KUSTOMIZE
from reconciler.kinds.lws import KINDS as LWS
from reconciler.kinds.nvidia import KINDS as NVIDIA
from reconciler.kinds.own import KINDS as OWN
from reconciler.kinds.ray import KINDS as RAY
from reconciler.kinds.serving import KINDS as SERVING
from reconciler.kinds.spark import KINDS as SPARK
from reconciler.kinds.torchrun import KINDS as TORCHRUN
from reconciler.kinds.virtual import KINDS as VIRTUAL
from reconciler.kinds.volcano import KINDS as VOLCANO
from reconciler.kinds.workloads import KINDS as WORKLOADS

BUILT_IN = Kinds(
    *(TORCHRUN, WORKLOADS, KUBEFLOW, RAY, JOBSET, LWS, APPWRAPPER, VOLCANO, KUEUE, KAI, OWN, HEALTH, KUSTOMIZE),
    *(KSERVE, NVIDIA, ARGO, SPARK, KAITO, SERVING, CONTROLLERS, VIRTUAL, DRA, AUTOSCALING),
)
"""Every kind that ships with the package. Of two kinds of one name, the first has no group in its file names."""
