"""`python -m thunderherd` is the command `thunderherd`."""

import sys

try:
    from thunderherd.cli.main import main
# Whatever fails here, status 1 would be a verdict of `gate`.
except Exception as error:
    reason = f"{type(error).__name__}: {error}"
    print(f"thunderherd: incomplete installation: {reason}\nhint: install it again", file=sys.stderr)
    sys.exit(128)

main()
