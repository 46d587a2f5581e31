"""Pages for a browser: templates, bars and maps as SVG, and the frame around both.

In: values of a plan or of a cluster. Out: one HTML text without links to anything outside itself. Everything that a
repository names is escaped, and the policy of the page runs only the script that ships with it.
"""

from reconciler.html.charts import AmountBar, Cell, Mark, bars, cells
from reconciler.html.page import fragment, page, source_address

__all__ = ["AmountBar", "Cell", "Mark", "bars", "cells", "fragment", "page", "source_address"]
