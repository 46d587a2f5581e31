"""A document's own file, edited where its values changed: comments, order, quotes and block styles stay."""

from reconciler.core.sized.inplace.source import EditedSource, edit_source

__all__ = ["EditedSource", "edit_source"]
