"""Prints the rates of simulations."""


def report(what: str, measured: float, expected: str) -> None:
    print(f"  {what}: {100 * measured:.1f} % ({expected})")
