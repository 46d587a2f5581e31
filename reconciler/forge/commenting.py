"""Comments of ours: each is found by its hidden first line, and there is one of each, whatever answers are lost."""

from reconciler.forge import Comment, Forge, ForgeError, LostAnswer
from reconciler.forge.bodies import is_same

_ATTEMPTS = 4
_MISSING = 404


def put_comment(forge: Forge, number: int, marker: str, body: str) -> bool:
    """Write our comment with this hidden line, or replace its text; return whether something was written.

    `body` begins with the marker. Only comments of the token's own account count as ours. If two runs write at once,
    the older comment stays.
    """
    left: ForgeError | None = None
    is_sent = False
    for _ in range(_ATTEMPTS):
        mine = _mine(forge, number, marker)
        try:
            for extra in mine[1:]:
                forge.delete_comment(number, extra.id)
            if mine and (is_sent or is_same(mine[0].body, body)):
                return is_sent or left is not None
            if mine:
                forge.edit_comment(number, mine[0].id, body)
            else:
                forge.comment(number, body)
            is_sent = True
        except LostAnswer as error:
            left = error
        except ForgeError as error:
            if error.status != _MISSING or not mine:
                raise
            left = error  # somebody deleted it meanwhile
    raise left or ForgeError("the forge does not show a comment that it took", hint="try again later")


def has_comment(forge: Forge, number: int, marker: str) -> bool:
    """Return whether we wrote a comment with this hidden line."""
    return bool(_mine(forge, number, marker))


def comment_once(forge: Forge, number: int, marker: str, text: str) -> None:
    """Write a comment unless we wrote it before."""
    if not has_comment(forge, number, marker):
        put_comment(forge, number, marker, f"{marker}\n\n{text}\n")


def _mine(forge: Forge, number: int, marker: str) -> list[Comment]:
    me = forge.me()
    return [one for one in forge.comments(number) if one.author == me and one.body.lstrip().startswith(marker)]
