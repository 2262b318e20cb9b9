"""How simulations print their rates."""


def report(what: str, measured: float, expected: str) -> None:
    print(f"  {what}: {100 * measured:.1f} % ({expected})")
