"""Test policies with examples: what each rule says about each object, beside what is expected."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, InvalidInput
from reconciler.index.checking import PolicyChecker
from reconciler.index.evaluator import PolicyEvaluator
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.wrapped import wrapped_manifests
from reconciler.kube.objects import FieldPath, SourceRef, format_path
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.secrets import mask_findings
from reconciler.kube.yaml import Document, read
from reconciler.plan.policy_tests.rendering import ExampleFiles, ExampleRenderer, RenderingTools
from reconciler.policy.admission import ServerView, Subject, is_policy
from reconciler.policy.examples import (
    KIND,
    PLAN_DEFINITION,
    Example,
    PolicyTest,
    TestedExample,
    Written,
    compare,
    example_manifest,
    read_test,
)
from reconciler.policy.rule_book import RuleBook, load_rules
from reconciler.repo.builds.inputs import joined

_POLICIES = "policies"
_FIELD: FieldPath = ("spec", "examples")


class ExampleReport(Struct, frozen=True, kw_only=True):
    """All examples, in the order of files."""

    examples: tuple[TestedExample, ...]

    @property
    def failed(self) -> tuple[TestedExample, ...]:
        """The examples that are not as expected."""
        return tuple(one for one in self.examples if one.reason)


class _TestInputs:
    """Reads what tests name, and collects what is wrong with it."""

    def __init__(
        self, files: ExampleFiles, catalogue: Catalogue, shipped: Sequence[Document], tools: RenderingTools
    ) -> None:
        self.files, self.catalogue, self.shipped, self.tools = files, catalogue, shipped, tools
        self.problems: list[Problem] = []
        self._checker = PolicyChecker(lambda: self._checker.made)

    def documents(self, path: str, *, optional: bool = False) -> list[Document]:
        """Return the documents of a file, or of all YAML and JSON files below a folder; `optional`: if there is one."""
        found: list[Document] = []
        for name in () if optional and not self.files.has(path) else self.files.files(path):
            reading = read(name, self.files.read(name))
            self.problems += reading.problems
            found += reading.documents
        return found

    def rules(
        self, test: PolicyTest, example: Example, documents: Sequence[Document], catalogue: Catalogue
    ) -> RuleBook:
        """Load the policies of a test, with the parameters and the user of an example."""
        requesters = {"": example.requester} if example.requester else {}
        server = ServerView(stored=catalogue.stored, served=catalogue.resource, requesters=requesters)
        rules = load_rules(documents, test.settings, shipped=self.shipped, check=self._checker.check, server=server)
        self.problems += rules.problems
        return rules

    def valid(self, documents: Iterable[Document], catalogue: Catalogue) -> list[Document]:
        """Return documents; what a server would refuse in them becomes problems."""
        kept = list(documents)
        for document in kept:
            self.problems += catalogue.validate(document)
        return kept


def run_tests(
    paths: Iterable[str],
    files: ExampleFiles,
    catalogue: Catalogue,
    shipped: Sequence[Document],
    tools: RenderingTools,
) -> ExampleReport:
    """Run the tests in files and folders; `tools` render the examples of our own kinds.

    Raises `InvalidInput` with all problems, `ConfigError` if there are no tests.
    """
    run = _TestInputs(files, catalogue, shipped, tools)
    found = (document for path in paths for document in run.documents(path) if document.kind == KIND)
    written = [*{document.source: document for document in found}.values()]  # files may be named twice
    if not written and not run.problems:
        raise ConfigError(f"no document of kind {KIND} found", hint="see `reconciler test --help`")
    documents = run.valid(written, catalogue)
    _raise_errors(run.problems)
    examples = [one for document in documents for one in _run_test(run, read_test(document))]
    _raise_errors(run.problems)
    return ExampleReport(examples=tuple(examples))


def _raise_errors(problems: Iterable[Problem]) -> None:
    errors = [problem for problem in dict.fromkeys(problems) if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(sorted(errors, key=lambda problem: problem.sort_key), where="in these files")


def _run_test(run: _TestInputs, test: PolicyTest) -> Iterator[TestedExample]:
    definitions = _named(run, test, "definitions", test.definitions)
    catalogue = run.catalogue.with_definitions([dict(PLAN_DEFINITION)]).with_crds(run.valid(definitions, run.catalogue))
    named = _named(run, test, "policies", test.policies) if test.policies else run.documents(_POLICIES, optional=True)
    documents = run.valid(named, catalogue)
    requests = _ExampleRequests(run, test, catalogue)
    known: dict[str, RuleBook] = {}
    for index, example in enumerate(test.examples):
        key = repr((example.params, example.requester))
        if key not in known:
            written = ((*_FIELD, index, "params"), example.params)
            params = _params(run, test, *written)
            known[key] = run.rules(test, example, [*_without(documents, params), *params], catalogue)
        one = _with_rule(run, example, known[key], documents)
        yield from _run_example(requests, test, one, index, known[key])


def _named(run: _TestInputs, test: PolicyTest, key: str, paths: Sequence[str]) -> list[Document]:
    return [one for index, path in enumerate(paths) for one in _objects(run, test, path, ("spec", key, index))]


def _params(run: _TestInputs, test: PolicyTest, field: FieldPath, written: Sequence[Written]) -> list[Document]:
    return [one for index, each in enumerate(written) for one in _objects(run, test, each, (*field, index))]


def _without(documents: Iterable[Document], replaced: Iterable[Document]) -> list[Document]:
    keys = {one.key for one in replaced}
    return [one for one in documents if one.key not in keys]


def _with_rule(run: _TestInputs, example: Example, rules: RuleBook, documents: Iterable[Document]) -> Example:
    """Return the example with the name of its rule: that of the only policy if it names none."""
    own = sorted({one.key.name for one in documents if is_policy(one)})
    rule = example.rule or (own[0] if len(own) == 1 else "")
    if rule in rules.policies.rules:
        return replace(example, rule=rule)
    message = f"there is no enabled policy {rule!r}" if rule else "it is unknown which policy the example is about"
    hint = f"name one in `rule`: {', '.join(own) or ', '.join(rules.policies.rules)}"
    run.problems.append(Problem(rule="test.rule", place=example.place, message=message, hint=hint))
    return replace(example, rule=rule)


def _run_example(
    requests: "_ExampleRequests", test: PolicyTest, example: Example, index: int, rules: RuleBook
) -> Iterator[TestedExample]:
    chosen = rules.policies.only(example.rule)
    evaluator = PolicyEvaluator(chosen)
    for document, subjects in requests.of(example, (*_FIELD, index)):
        key, verdicts = example_manifest(document).key, []
        for subject, found in zip(subjects, evaluator.evaluate(subjects), strict=True):
            prefix = "" if subject.manifest.key == key else f"{subject.manifest.key}: "
            said = mask_findings((*found.verdicts, *found.exceeded), [subject.manifest.body])
            verdicts += [replace(one, message=f"{prefix}{one.message}") for one in said]
        yield compare(test, example, document, is_judged=any(map(chosen.matches, subjects)), verdicts=verdicts)


class _ExampleRequests:
    """The requests that the examples of one test stand for."""

    def __init__(self, run: _TestInputs, test: PolicyTest, catalogue: Catalogue) -> None:
        self._run, self._test, self._catalogue = run, test, catalogue

    def of(self, example: Example, field: FieldPath) -> Iterator[tuple[Document, list[Subject]]]:
        """Yield the object of an example, or each of several, with the requests of all that is rendered from it."""
        run, test, catalogue = self._run, self._test, self._catalogue
        old = _one(run, test, example.old, (*field, "oldObject"), catalogue)
        space = _one(run, test, example.namespace, (*field, "namespace"), catalogue)
        new = run.valid(_objects(run, test, example.new, (*field, "object")), catalogue)
        namespace = None if space is None else space.data
        existing = [] if old is None else self._manifests(old)
        if example.new is None and old is not None:
            yield old, [Subject(one, None, namespace, deletes=True) for one in existing]
        for document in new:
            yield document, [*self._changes(self._manifests(document), existing, namespace)]

    def _changes(
        self, new: Sequence[Manifest], old: Sequence[Manifest], namespace: Mapping[str, Any] | None
    ) -> Iterator[Subject]:
        """Yield what turns the old objects into the new ones. Of two single objects, one replaces the other."""
        is_single = len(new) == len(old) == 1
        before = {one.key: one.body for one in old}
        for manifest in new:
            replaced = old[0].body if is_single else before.get(manifest.key)
            inner = wrapped_manifests(self._run.tools.kinds, manifest, replaced)
            wrapped = tuple((format_path(path), Subject(one, None, namespace)) for path, one in inner)
            yield Subject(manifest, replaced, namespace, wrapped=wrapped)
        kept = {one.key for one in new}
        yield from (Subject(one, None, namespace, deletes=True) for one in old if not is_single and one.key not in kept)

    def _manifests(self, document: Document) -> Sequence[Manifest]:
        if not self._run.tools.renders(document):
            return (example_manifest(document),)
        manifests, problems = self._renderer.render(document)
        self._run.problems += problems
        return manifests

    @cached_property
    def _renderer(self) -> ExampleRenderer:
        run, test = self._run, self._test
        config = run.tools.config
        cluster = config.cluster(test.cluster) if test.cluster else config.clusters[0]
        if cluster is None:
            place, known = test.document.at(("spec", "cluster")), ", ".join(one.name for one in config.clusters)
            message = f"there is no cluster {test.cluster!r} in reconciler.yaml"
            run.problems.append(Problem(rule="test.cluster", place=place, message=message, hint=f"clusters: {known}"))
        written = (joined(posixpath.dirname(test.document.source.path), path) for path in test.sources)
        folders = [*written] or [path for path in config.sources if run.files.has(path)]
        sources = [path for folder in folders for path in run.files.files(folder)]
        renderer = ExampleRenderer(run.tools, run.files, self._catalogue, cluster or config.clusters[0], sources)
        run.problems += renderer.problems
        return renderer


def _one(
    run: _TestInputs, test: PolicyTest, written: Written | None, field: FieldPath, catalogue: Catalogue
) -> Document | None:
    found = run.valid(_objects(run, test, written, field), catalogue)
    if len(found) > 1:
        message = f"{written} holds {len(found)} objects, but one is needed"
        place = test.document.at(field)
        run.problems.append(Problem(rule="test.objects", place=place, message=message, hint="name a file with one"))
    return found[0] if found else None


def _objects(run: _TestInputs, test: PolicyTest, written: Written | None, field: FieldPath) -> list[Document]:
    """Return the objects of a file or folder, or the one that is written in the test itself."""
    if written is None:
        return []
    if not isinstance(written, str):
        return [_inline(test.document, written, field)]
    path = joined(posixpath.dirname(test.document.source.path), written)
    try:
        return run.documents(path)
    except ConfigError as error:
        place: SourceRef = test.document.at(field)
        run.problems.append(Problem(rule="test.file", place=place, message=error.message, hint=error.hint))
        return []


def _inline(document: Document, body: Mapping[str, Any], field: FieldPath) -> Document:
    """Return an object that is written in a test as a document, so that its values have places."""
    return replace(document, data=dict(body), source=document.at(field), root=(*document.root, *field), ambiguous=())
