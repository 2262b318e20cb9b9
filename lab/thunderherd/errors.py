"""The one exception that stands for a mistake of the user's, not of the program's."""


class UserError(Exception):
    """Something the user can mend: the message says what failed, the value seen, what is allowed, what to type.

    The command line prints the message in one line, without a stack trace, and exits with status 2.
    """
