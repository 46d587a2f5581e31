"""Answer the sizing question of a launch line that is in no file."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from reconciler.errors import InvalidInput
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.launch import Diagnostic, FlagReview, Launch, parse_launch, review_flags
from reconciler.launch.changes import SettingEdit
from reconciler.launch.settings import FileReader
from reconciler.size.assume import LENGTHS, SEQUENCE, Assumptions, assume
from reconciler.size.files import complete_answer
from reconciler.size.pages.answer import SizeAnswer
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decide import decide_cheapest
from reconciler.sizing.job_questions import JobQuestions, build_questions
from reconciler.sizing.question import Question
from reconciler.sizing.remedies import Situation
from reconciler.sizing.summary import SizingSummary, describe_question, summarize
from reconciler.sizing.tables import SizingTables
from reconciler.sizing.training import Training

PATH = "line"
"""What messages call the place of a line."""


def size_line(
    text: str,
    tables: SizingTables,
    settings: SizingSettings,
    files: FileReader,
    *,
    gpus: int | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[SizeAnswer, tuple[Problem, ...]]:
    """Size what a launch line trains, and return the warnings about it.

    text: the line, or the shell script around it.
    files: reads the files that the line names, by their paths there.
    gpus: the number of GPUs that it runs on; a process is started on each, unless the line says otherwise.
    env: variables that the line sees.

    Raises `InvalidInput` with all reasons why it cannot be sized.
    """
    line = _Line(text, tables, settings, files, gpus, env or {})
    launch, review, built = line.read_or_assume()
    problems = tuple(_problems(text, (*review.refused, *built.diagnostics)))
    if launch is None or problems:
        raise InvalidInput(problems, where="in the launch line")
    decision = decide_cheapest(built.questions)
    defaults = [(name, fact.origin) for name, fact in built.defaults if fact.origin]
    situation = Situation(
        offered=tuple(tables.gpus),
        most_gpus=settings.max_gpus,
        framework=launch.framework,
        launch=launch,
        reread=line.reread,
    )
    unexplained = [one for one in review.warnings if one.span is None or one.span not in line.assumed.used]
    warnings = (replace(problem, severity=Severity.WARNING) for problem in _problems(text, unexplained))

    def note(question: Question) -> SizingSummary:
        return summarize(decision, read=describe_question(question, defaults))

    answer = complete_answer(built.questions, decision, note, situation, gpus=gpus)
    return replace(answer, assumed=line.texts(), by_length=line.by_length()), tuple(warnings)


class _Line:
    """A line with what it is read against."""

    def __init__(  # noqa: PLR0917 - the arguments of `size_line`
        self,
        text: str,
        tables: SizingTables,
        settings: SizingSettings,
        files: FileReader,
        gpus: int | None,
        env: Mapping[str, str],
    ) -> None:
        self.assumed = Assumptions()
        self._words = ("bash", "-c", text)
        self._tables, self._settings, self._files, self._gpus, self._env = tables, settings, files, gpus, env

    def read(self, edits: Iterable[SettingEdit] = (), tokens: int | None = None) -> tuple[Launch | None, FlagReview]:
        """Return the line with `edits`, and the review of its flags; what cannot be read is refused.

        tokens: of a sample, instead of the number that is assumed.
        """
        env = {**self._env, **self.assumed.variables} | ({} if tokens is None else {SEQUENCE: str(tokens)})
        files = self.assumed.reader(self._files)
        parsed = parse_launch(self._words, (), env, files, edits=tuple(edits))
        if parsed.launch is None or parsed.diagnostics:
            wrong = tuple(one for one in parsed.diagnostics if one not in self.assumed.ignored)
            if parsed.launch is None or wrong:
                return parsed.launch, FlagReview(refused=wrong)
        ignored = self.assumed.ignored
        launch = replace(parsed.launch, unresolved=tuple(one for one in parsed.launch.unresolved if one not in ignored))
        review = review_flags(launch, self._tables.flags)
        refused = tuple(one for one in review.refused if one not in ignored)
        return launch, replace(review, refused=refused)

    def read_or_assume(self) -> tuple[Launch | None, FlagReview, JobQuestions]:
        """Read the line; what it does not state, or nobody knows, is assumed if nothing else is wrong with it."""
        while True:
            launch, review = self.read()
            built = JobQuestions() if launch is None or review.refused else self.questions(launch, review)
            wrong = (*review.refused, *built.diagnostics)
            if launch is None or not wrong:
                return launch, review, built
            found, left = assume(launch, wrong, self._tables.models, self._gpus)
            if left or self.assumed + found == self.assumed:
                return launch, FlagReview(refused=left or wrong), JobQuestions()
            self.assumed += found
            if found.families:
                self._tables = self._tables.with_families()

    def by_length(self) -> tuple[tuple[int, int | None], ...]:
        """Return the number of GPUs by the tokens of a sample, if the data decides about those."""
        if SEQUENCE not in self.assumed.variables:
            return ()
        found = []
        for length in LENGTHS:
            launch, review = self.read(tokens=length)
            questions = () if launch is None else self.questions(launch, review).questions
            chosen = decide_cheapest(questions).chosen if questions else None
            found.append((length, None if chosen is None else chosen.layout.gpus))
        return tuple(found)

    def texts(self) -> tuple[str, ...]:
        """Return what is assumed, with the models of whose families others are."""
        meant = self._tables.models.meant if self.assumed.families else {}
        models = (f"`{written}` has the sizes of {name}, as its name says" for written, name in meant.items())
        return (*self.assumed.texts, *models)

    def questions(self, launch: Launch, review: FlagReview) -> JobQuestions:
        """Return the questions of a line."""
        built = build_questions(
            launch,
            self._settings,
            self._tables,
            requested_gpus=self._gpus,
            files=self.assumed.reader(self._files),
            is_uncertain=bool(review.warnings or self.texts()),
        )
        is_assumed = bool(self.assumed.files or self.assumed.ignored or self.assumed.families)
        return replace(built, questions=tuple(replace(one, is_assumed=is_assumed) for one in built.questions))

    def reread(self, edits: Iterable[SettingEdit]) -> tuple[Training, bool] | None:
        """Return what the line would train with other settings, as `remedies.Reread` says."""
        launch, review = self.read(edits)
        if launch is None or review.refused:
            return None
        found = self.questions(launch, review).questions
        return (found[0].training, found[0].is_uncertain) if found else None


def _problems(text: str, diagnostics: Iterable[Diagnostic]) -> Iterable[Problem]:
    for diagnostic in diagnostics:
        at = 0 if diagnostic.span is None else diagnostic.span.start
        before = text[:at]
        place = SourceRef(path=PATH, line=before.count("\n") + 1, column=at - (before.rfind("\n") + 1) + 1)
        yield diagnostic.to_problem(place, "")
