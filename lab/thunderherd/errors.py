"""The one exception that stands for a mistake of the user's, not of the program's."""


class UserError(Exception):
    """Something the user can mend.

    The message says what failed, the value seen, what is allowed and what to type. The command line prints
    it in one line, without a stack trace, and exits with status 2.
    """


class Refusal(UserError):
    """What the engine was told is something that it does not take: told again, it is refused again."""
