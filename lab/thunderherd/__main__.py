"""`python -m thunderherd` is the command `thunderherd`."""

from thunderherd.cli import main

main()
