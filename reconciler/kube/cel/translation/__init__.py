"""Checked expressions as Python: each becomes one generated function, which Python compiles. `build` makes its program.

    object.spec.?replicas.orValue(1) > 3

    t1 = env[0].values.get('object', MISSING)
    if t1 is MISSING: raise env[0].missing('object')
    t2 = t1['spec'] if type(t1) is dict and 'spec' in t1 else select(t1, 'spec')
    t3 = t2.get('replicas', MISSING) if type(t2) is dict else find(t2, 'replicas')
    if t3 is MISSING:
        t3 = 1
    t4 = t3 > 3 if type(t3) is int else call1(t3, 3)

Each line does the common case by itself and leaves every other one to a function that knows all cases and errors.
Large branches and bodies of loops are functions of their own, which are translated when they are first called. Nothing
that a policy contains becomes code: texts and numbers are written with `repr`, other constants are names.
"""

from reconciler.kube.cel.translation.expressions import build

__all__ = ["build"]
