"""What the kernel does about the faults of its processor: some of it is paid at every system call."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Examination, Finding, Here, good, notable
from thunderherd.machine import description

PAID_AT_EVERY_CALL = ("PTI", "Clear CPU buffers", "Mitigation: IBRS", "untrained return thunk", "Safe RET")
"""Words of those that make each entry into the kernel, or each return, dearer (Linux,
Documentation/admin-guide/hw-vuln)."""


def mitigations(here: Here) -> Iterator[Finding]:
    """Those that are in force, and those that are dear."""
    found = description.mitigations()
    active = {name: said for name, said in found.items() if said.startswith("Mitigation")}
    open_ones = [name for name, said in found.items() if said.startswith("Vulnerable")]
    dear = [name for name, said in active.items() if any(words in said for words in PAID_AT_EVERY_CALL)]
    seen = f"{len(active)} of {len(found)} in force"
    if open_ones:
        seen += f"; nothing is done about {', '.join(open_ones)}"
    if not dear:
        means = "none of them is dear at every system call"
        yield good("mitigations", seen, means)
        return
    yield notable(
        "mitigations",
        seen,
        f"{', '.join(dear)}: paid at every system call, so what makes fewer of them gains more here than on "
        "a processor without the fault. Leave them on; compare with machines that do the same. On a "
        "machine that runs nothing but measurements the kernel parameter mitigations=off tells what they "
        "cost",
    )


EXAMINATION = Examination(title="Mitigations", looks=(mitigations,))
