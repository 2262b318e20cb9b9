"""`python -m thunderherd` is the command `thunderherd`."""

import sys

try:
    from thunderherd.cli.main import main
except ImportError as error:
    print(f"thunderherd: incomplete installation: {error}\nhint: install it again", file=sys.stderr)
    # Status 1 would be a verdict of `gate`.
    sys.exit(128)

main()
