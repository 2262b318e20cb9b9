"""`python -m thunderherd` is the command `thunderherd`."""

from thunderherd.cli.main import main

main()
