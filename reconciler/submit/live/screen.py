"""The screen of `reconciler manage`: the workloads of a user, and what may be done with the one that is chosen."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Header

from reconciler.kube.client.port import ClusterError
from reconciler.submit.live.workloads import LiveWorkload

Choice = tuple[str, LiveWorkload]
"""What to do, and with which workload."""

_COLUMNS = ("Type", "Namespace", "Name", "User", "Pods")


class ManageScreen(App[Choice]):
    """Shows workloads; a key chooses what to do with the one under the cursor, and ends the screen."""

    TITLE = "reconciler"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("l", "choose('logs')", "Logs"),
        ("e", "choose('exec')", "Shell"),
        ("p", "choose('port-forward')", "Port"),
        ("m", "choose('monitor')", "GPUs"),
        ("d", "choose('delete')", "Delete"),
        ("r", "reload", "Reload"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, read: Callable[[], Sequence[LiveWorkload]]) -> None:
        """`read` returns the workloads as they are now."""
        super().__init__()
        self._load = read
        self._rows: Sequence[LiveWorkload] = ()

    def compose(self) -> ComposeResult:
        """Yield the parts of the screen."""
        yield Header()
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Fill the table."""
        self.query_one(DataTable).add_columns(*_COLUMNS)
        self.action_reload()

    def action_reload(self) -> None:
        """Read the workloads again, and say it if that fails."""
        table = self.query_one(DataTable)
        table.clear()
        self._rows = ()
        try:
            self._rows = self._load()
        except ClusterError as error:
            self.notify(error.message, severity="error")
        for row in self._rows:
            pods = ", ".join(f"{number} {phase}" for phase, number in sorted(row.phases.items())) or "none"
            table.add_row(row.key.kind, row.key.namespace, row.key.name, row.user or "-", pods)

    def action_choose(self, what: str) -> None:
        """End the screen with what to do."""
        if self._rows:
            self.exit((what, self._rows[self.query_one(DataTable).cursor_row]))
