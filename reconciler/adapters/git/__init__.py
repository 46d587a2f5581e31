"""Git by its plumbing: what a revision or the working tree holds, and commits."""

from reconciler.adapters.git.repository import GitRepository

__all__ = ["GitRepository"]
