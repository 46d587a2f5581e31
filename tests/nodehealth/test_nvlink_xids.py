"""Xids of NVLink: which link, what its registers or sub-code say, and what follows for the GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, RepairAction
from reconciler.nodehealth.xids import LinkFault, link_fault, parse_xid
from tests.nodehealth.test_xids import DEGRADED, FATAL, Line, node, xid

INFO = FindingSeverity.INFO
DIAG, OBSERVE, SUPPORT, RESET = (
    RepairAction.RUN_DIAG, RepairAction.OBSERVE, RepairAction.CONTACT_SUPPORT, RepairAction.RESET_GPU,
)  # fmt: skip


def registers(*bits: tuple[int, int], link: int = 14) -> str:
    """Return the text of an Xid 74 with these bits, each with the number of its register."""
    values = [sum(1 << bit for register, bit in bits if register == number) for number in range(1, 8)]
    return (
        f"pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {link}({', '.join(map(hex, values))})"
    )


def fault(code: int, rest: str) -> LinkFault | None:
    event = parse_xid(f"NVRM: Xid (PCI:0000:10:00): {code}, {rest}")
    assert event is not None
    return link_fault(event)


@pytest.mark.parametrize(
    ("bits", "severity", "action", "what"),
    [
        ([(1, 4)], DEGRADED, DIAG, "ECC or parity"),
        ([(3, 6)], DEGRADED, DIAG, "ECC or parity"),
        ([(5, 28)], DEGRADED, DIAG, "ECC or parity"),
        ([(1, 12)], DEGRADED, DIAG, "loose connection"),
        ([(1, 22)], DEGRADED, DIAG, "marginal signal"),
        ([(3, 16)], DEGRADED, OBSERVE, "if it repeats"),
        ([(4, 18)], DEGRADED, RESET, "the fabric needs a reset"),
        ([(1, 20)], DEGRADED, SUPPORT, "a consequence of another error"),
        ([(5, 20)], INFO, OBSERVE, "none uncorrected"),
        ([(1, 0), (1, 30)], INFO, RepairAction.NONE, "nothing that matters"),
        ([(1, 0), (1, 4)], DEGRADED, DIAG, "ECC or parity"),
        ([(3, 13)], DEGRADED, SUPPORT, "unexpected registers"),
        ([(1, 0), (1, 2)], DEGRADED, SUPPORT, "unexpected registers"),
        ([(2, 5), (6, 31)], DEGRADED, SUPPORT, "unexpected registers"),
        ([], DEGRADED, SUPPORT, "unexpected registers"),
    ],
)
def test_registers_of_xid_74(
    bits: list[tuple[int, int]], severity: FindingSeverity, action: RepairAction, what: str
) -> None:
    """F-081: the bits that NVIDIA's catalogue names; an unknown bit beside a harmless one is not harmless."""
    found = fault(74, registers(*bits))
    assert found is not None
    assert (found.link, found.severity, found.action) == (14, severity, action)
    assert what in found.what


@pytest.mark.parametrize(
    ("code", "rest", "severity", "link", "what"),
    [
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000)", FATAL, 9,
         "NETIR_LINK_EVT fatal, IntrInfo 0x025525c6: the other end of the link"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000004)", FindingSeverity.APP, 10,
         "RLW_REMAP not fatal, IntrInfo 0x00000004"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)", INFO, 13,
         "RLW_RXPIPE not fatal, IntrInfo 0x0409a0c2"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x00000086 0x00000001)", FATAL, 13,
         "RLW_RXPIPE not fatal, IntrInfo 0x00000086"),
        (149, "NETIR_LINK_EVT/NETIR_LINK_DOWN Fatal XC0 i0 Link 00 (0x02800011 0x0)", DEGRADED, 0,
         "NETIR_LINK_EVT fatal, IntrInfo 0x02800011: the host; no reset is needed"),
        (149, "NETIR_LINK_EVT Fatal XC 1 i 0 Link 01 [0x0000000a]", FATAL, 1, "NETIR_LINK_EVT fatal, IntrInfo 0x0000000a"),
        (149, "NETIR Non-fatal XC0 i0 Link 08 (0x000000c0)", INFO, 8, "NETIR not fatal, IntrInfo 0x000000c0"),
        (150, "pid=1, name=a, MSE Fatal XC0 i1 Link -1", FATAL, -1, "MSE fatal, injected"),
    ],
)  # fmt: skip
def test_sub_codes_of_nvlink_5(code: int, rest: str, severity: FindingSeverity, link: int, what: str) -> None:
    """F-081: the driver says whether a fault is fatal, and on which link."""
    found = fault(code, rest)
    assert found is not None
    assert (found.severity, found.link, found.what) == (severity, link, what)


def test_the_verdict_names_link_and_severity() -> None:
    """F-081: fatal as the line says; a line that cannot be read stays degraded, as the table has it."""
    dead = xid(node([(1, 149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000)")]))
    assert (dead.status, dead.severity, dead.action) == (CheckStatus.FAIL, FATAL, RESET)
    assert dead.message == (
        "Xid 149 (NVLink NETIR error; link 9: NETIR_LINK_EVT fatal, IntrInfo 0x025525c6: the other end of the link)"
    )
    odd = xid(node([(1, 149, "something else")]))
    assert (odd.status, odd.severity) == (CheckStatus.WARN, DEGRADED)
    assert "link 14: an ECC or parity error" in xid(node([(1, 74, registers((1, 4)))])).message


def test_harmless_registers_do_not_repeat() -> None:
    """F-081: two errors within a day are fatal, unless the registers say that they do not matter."""
    harmless: list[Line] = [(hour, 74, registers((1, 23))) for hour in (1, 2, 3)]
    assert xid(node(harmless)).status is CheckStatus.PASS
    assert xid(node([*harmless, (4, 74, registers((1, 8)))])).severity is DEGRADED
    assert xid(node([*harmless, (4, 74, registers((1, 8))), (5, 74, registers((1, 8)))])).severity is FATAL


@given(st.integers(144, 150) | st.just(74) | st.just(79), st.text())
def test_hostile_texts(code: int, text: str) -> None:
    """Never an exception."""
    event = parse_xid(f"NVRM: Xid (PCI:0000:10:00): {code}, link 1({text}) {text} Fatal XC0 i0 Link {text}")
    if event is not None:
        link_fault(event)
