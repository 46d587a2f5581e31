"""Rules about objects: admission policies in CEL, and rules over all objects of a revision.

In: manifests, summaries, policies and exceptions. Out: verdicts. `admission` evaluates ValidatingAdmissionPolicy as
the API server does; `references` are the rules that need more than one object.
"""
