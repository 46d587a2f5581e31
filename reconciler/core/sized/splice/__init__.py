"""Edit a document in its own file: comments, order, quotes and block styles stay."""

from reconciler.core.sized.splice.edit import EditedSource, edit_source

__all__ = ["EditedSource", "edit_source"]
