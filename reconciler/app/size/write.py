"""Write the sizes into the files that hold the jobs."""

from collections.abc import Iterable

from reconciler.app.size.files import SizedFile
from reconciler.core.problems import Severity
from reconciler.errors import InvalidInput


def edited_files(files: Iterable[SizedFile]) -> dict[str, bytes]:
    """Return the new contents of the files that change, by path. Raises `InvalidInput` if any file has errors."""
    edits = [(file, *file.edit()) for file in files]
    problems = [problem for file, _, found in edits for problem in (*file.problems, *found)]
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    return {file.path: content for file, content, _ in edits if content != file.raw}
