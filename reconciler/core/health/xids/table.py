"""What the table says about the code of an Xid."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from reconciler.core.health.findings import FindingSeverity, RepairAction


class XidRepeat(Struct, frozen=True, kw_only=True, rename="camel"):
    """When a code means more: that many events on one slot within hours, of at least so many workloads."""

    count: int
    hours: float
    workloads: int = 1
    severity: FindingSeverity
    action: RepairAction = RepairAction.RUN_DIAG


class XidRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one code means. `bucket` is the immediate action of NVIDIA's catalogue."""

    code: int
    bucket: str
    severity: FindingSeverity
    action: RepairAction = RepairAction.NONE
    name: str = ""
    repeat: XidRepeat | None = None
    with_pending_remap: FindingSeverity | None = None  # the severity while a row remap is pending
    note: str = ""


class XidTable(Struct, frozen=True, kw_only=True):
    """The rules by code. A code without a rule is degraded, for a person to look at."""

    rules: Mapping[int, XidRule] = field(default_factory=dict)

    def rule(self, code: int) -> XidRule:
        """Return the rule of a code."""
        return self.rules.get(code) or XidRule(
            code=code, bucket="UNKNOWN", severity=FindingSeverity.DEGRADED, action=RepairAction.CONTACT_SUPPORT
        )

    def replaced(self, rules: Mapping[int, XidRule]) -> "XidTable":
        """Return the table with other rules for some codes, as a policy has them."""
        return XidTable(rules={**self.rules, **rules})


NO_XIDS = XidTable()


class _XidFile(Struct, frozen=True):
    xids: tuple[XidRule, ...]


def read_xids(content: bytes) -> XidTable:
    """Read `data/xids.json`."""
    return XidTable(rules={rule.code: rule for rule in msgspec.json.decode(content, type=_XidFile).xids})
