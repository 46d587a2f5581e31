"""The rules in CEL of custom kinds (`x-kubernetes-validations`), evaluated as an API server does.

Sources: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel and k8s.io/apiserver/pkg/cel/common (Kubernetes 1.37).
"""
