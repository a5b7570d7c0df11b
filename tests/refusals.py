"""What is refused: by one message, and with what to do about it."""

import pytest


def refusal(error, call, *arguments, **options):
    """Return the diagnostic of the error that a call raises."""
    with pytest.raises(error) as raised:
        call(*arguments, **options)
    (found,) = raised.value.diagnostics
    assert found.hint
    return found
