"""Comments that are commands: `/plan`, `/approve REASON`, `/explain OBJECT FIELD`; off unless the settings allow them.

Only the first line of a comment counts, and only of people who may push. Each is answered once: the answer names the
comment in its hidden first line. Nothing that a comment says is run or rendered as it is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct

from reconciler.forge import ChangeRequest, Comment, Forge
from reconciler.forge.bodies import note_marker, plain
from reconciler.forge.commenting import comment_once
from reconciler.plan.outputs.markdown import code, prose

COMMANDS = ("plan", "approve", "explain")
_MOST = 20  # answers of one run


class Order(Struct, frozen=True, kw_only=True):
    """A command of a comment: its name, and the rest of the line.

    written: time of Unix; 0 if it is not known, or the comment was edited, which others than its author may do.
    """

    comment: int
    author: str
    name: str
    rest: str
    written: float = 0.0


def read_order(comment: Comment, allowed: Collection[str]) -> Order | None:
    """Return the command of a comment; None if its first line is none that is allowed."""
    first = comment.body.lstrip("\r\n").partition("\n")[0].strip()
    name, _, rest = first.removeprefix("/").partition(" ")
    if not first.startswith("/") or name not in allowed or name not in COMMANDS:
        return None
    written = comment.created if comment.created == comment.updated else 0.0
    return Order(comment=comment.id, author=comment.author, name=name, rest=plain(rest), written=written)


def open_orders(forge: Forge, request: ChangeRequest, allowed: Collection[str]) -> Iterator[Order]:
    """Yield the commands of a change request that are not answered, the oldest first."""
    comments, me = forge.comments(request.number), forge.me()
    answered = [one.body for one in comments if one.author == me]
    for comment in comments:
        order = None if comment.author == me else read_order(comment, allowed)
        if order is not None and not any(body.startswith(_marker(order)) for body in answered):
            yield order


def answer(
    forge: Forge, request: ChangeRequest, orders: Iterable[Order], carry_out: Callable[[Order], str]
) -> list[Order]:
    """Carry out the commands of people who may push, and answer every one; return those that were carried out.

    carry_out: does one, and returns Markdown. It is not asked for people who may not push.
    """
    done = []
    for order in list(orders)[:_MOST]:
        command = code(f"/{order.name}")
        if forge.may_write(order.author):
            text = carry_out(order)
            done.append(order)
        else:
            text = f"{command} was not carried out: {prose(order.author)} may not push to this repository."
        comment_once(forge, request.number, _marker(order), text)
    return done


def _marker(order: Order) -> str:
    return note_marker(f"answer-{order.comment}")
