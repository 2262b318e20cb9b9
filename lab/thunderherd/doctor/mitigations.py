"""The kernel's mitigations of CPU vulnerabilities: some cost time at every system call."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Examination, Finding, Here, good, notable
from thunderherd.machine import description

PAID_AT_EVERY_CALL = ("PTI", "Clear CPU buffers", "Mitigation: IBRS", "untrained return thunk", "Safe RET")
"""Words of mitigations that make each entry to the kernel, or each return, slower (Linux,
Documentation/admin-guide/hw-vuln)."""


def mitigations(here: Here) -> Iterator[Finding]:
    """Report the active mitigations, and the expensive ones among them."""
    found = description.mitigations()
    active = {name: state for name, state in found.items() if state.startswith("Mitigation")}
    open_ones = [name for name, state in found.items() if state.startswith("Vulnerable")]
    dear = [name for name, state in active.items() if any(words in state for words in PAID_AT_EVERY_CALL)]
    seen = f"{len(active)} of {len(found)} active"
    if open_ones:
        seen += f"; none for {', '.join(open_ones)}"
    if not dear:
        means = "none of them costs much at a system call"
        yield good("mitigations", seen, means)
        return
    yield notable(
        "mitigations",
        seen,
        f"{', '.join(dear)}: every system call is slower, so designs with fewer calls gain more than on a "
        "CPU without the vulnerability. Leave the mitigations on, and compare only with machines that have "
        "them, too. On a machine used only for measurements, the kernel parameter mitigations=off shows "
        "their cost",
    )


EXAMINATION = Examination(title="Mitigations", looks=(mitigations,))
