"""Complete the answer to a sizing question: how far the size reaches, and what would make a training fit."""

from msgspec.structs import replace

from reconciler.core.sizing.question import Question
from reconciler.core.sizing.remedies import Situation, find_reach, find_remedies
from reconciler.outputs.sizing.answer import SizeAnswer


def completed(answer: SizeAnswer, situation: Situation, asked: Question | None = None) -> SizeAnswer:
    """Return the answer with its reach, and with remedies if what was asked does not fit.

    asked: the question with the number of GPUs that the user named; None: that of the answer.
    """
    question, decision = asked or answer.question, answer.decision
    subject = answer.requested or decision.chosen
    if subject is not None and subject.estimate is not None:
        answer = replace(answer, reach=find_reach(replace(question, gpu=subject.gpu), subject.layout))
    if (subject is not None and subject.fits) or decision.is_pending:
        return answer
    rejected = decision.candidates if answer.requested is None else (answer.requested,)
    return replace(answer, remedies=find_remedies(question, rejected, situation), framework=situation.framework)
