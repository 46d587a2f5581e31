"""The meaning of the kinds of objects: the one place that knows their names.

In: documents. Out: intents, manifests with the reason of each value, and summaries. `kind` is a row of the registry
and `registry` lists the families; each family is a module or a folder of its own.
"""
