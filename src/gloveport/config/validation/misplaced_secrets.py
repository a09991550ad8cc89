"""Gives hints for a misspelt reference to a secret, or a secret in place of a reference.

No hint quotes the value.
"""

_HINTS = {
    "env": 'write the name of the variable alone, of letters, digits and _, without spaces and "$": "env:NAME"',
    "file": 'write the whole path from "/" on; "~" and variables are not expanded: "file:/path"',
    "json": 'write the whole path from "/" on and then the member; "~" and variables are not expanded: '
    '"json:/path#/pointer"',
    "command": 'write the program and its arguments: "command:PROGRAM ARGUMENT"',
    "keyring": 'write the service, a slash and the user: "keyring:SERVICE/USER"',
}

_ITSELF = (
    'this looks like the secret itself: move it to a file or the environment, and write "file:/path" or "env:NAME"; '
    "if this file was shared, revoke it"
)


def misplaced_hint(written: str) -> str:
    """Say what to write instead of a text that is no reference to a secret."""
    if not written:
        return 'say where it is: "file:/path" or "env:NAME"'
    before, colon, _ = written.partition(":")
    scheme = before.strip().lower()
    if not colon or scheme not in _HINTS:
        return _ITSELF
    if before != scheme:
        return f'schemes are small letters: write "{scheme}:"'
    return _HINTS[scheme]
