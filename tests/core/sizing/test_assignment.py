"""Jobs get GPU products together: within what is free, at the lowest cost, whatever the order of their files."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.sizing.decide import assignment
from reconciler.core.sizing.decide.assignment import Applicant, Assigned, CardOption, Pool, assign

_PRODUCTS, _QUEUES = ("A100", "H100", "L40S"), ((), ("red",), ("blue", "all"))
_GPUS = st.integers(1, 8)


@st.composite
def applicants(draw: st.DrawFn, most: int = 5) -> list[Applicant]:
    found = []
    for number in range(draw(st.integers(1, most))):
        names = draw(st.lists(st.sampled_from(_PRODUCTS), min_size=1, unique=True))
        options = tuple(
            CardOption(product=name, gpus=draw(_GPUS), cost=float(draw(st.integers(1, 20)))) for name in names
        )
        found.append(Applicant(job=f"job-{number}", queues=draw(st.sampled_from(_QUEUES)), options=options))
    return found


_POOLS = [(queue, name) for queue in ("", "red", "blue", "all") for name in ("", *_PRODUCTS) if queue or name]
FREE = st.dictionaries(st.sampled_from(_POOLS), st.integers(0, 16))
Free = dict[Pool, int]


def used(jobs: list[Applicant], found: dict[str, Assigned]) -> dict[Pool, int]:
    sums: dict[Pool, int] = {}
    for one in jobs:
        if found[one.job].fits:
            option = found[one.job].option
            own = [(queue, name) for queue in one.queues for name in ("", option.product)]
            for pool in [("", option.product), *own]:
                sums[pool] = sums.get(pool, 0) + option.gpus
    return sums


def loss(found: dict[str, Assigned]) -> tuple[int, float]:
    return (
        sum(not one.fits for one in found.values()),
        sum(one.option.cost for one in found.values() if one.fits),
    )


def best_loss(jobs: list[Applicant], free: Free) -> tuple[int, float]:
    """Try every combination."""
    losses = []
    for options in product(*((*one.options, None) for one in jobs)):
        found = {
            one.job: Assigned(option=option or one.options[0], fits=option is not None)
            for one, option in zip(jobs, options, strict=True)
        }
        if all(gpus <= free.get(pool, gpus) for pool, gpus in used(jobs, found).items()):
            losses.append(loss(found))
    return min(losses)


@given(jobs=applicants(), free=FREE)
def test_few_jobs_get_the_best_of_all_assignments(jobs: list[Applicant], free: Free) -> None:
    found = assign(jobs, free)
    assert all(gpus <= free.get(pool, gpus) for pool, gpus in used(jobs, found).items())
    assert loss(found) == best_loss(jobs, free)


@given(jobs=applicants(), free=FREE, complete=st.booleans(), data=st.data())
def test_the_order_of_files_does_not_matter(
    jobs: list[Applicant], free: Free, complete: bool, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(jobs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "_MOST_COMBINATIONS", 20_000 if complete else 0)
        assert assign(jobs, free) == assign(shuffled, free)


@given(jobs=applicants(), free=FREE)
def test_many_jobs_fit_and_no_pair_could_do_better(jobs: list[Applicant], free: Free) -> None:
    """The search by moves and exchanges respects what is free, and is the best for every two jobs among the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "_MOST_COMBINATIONS", 0)
        found = assign(jobs, free)
    assert all(gpus <= free.get(pool, gpus) for pool, gpus in used(jobs, found).items())
    assert loss(found) >= best_loss(jobs, free)
    for one in jobs:
        for other in jobs:
            pair = [one] if one is other else [one, other]
            rest = used([each for each in jobs if each not in pair], found)
            left = {pool: gpus - rest.get(pool, 0) for pool, gpus in free.items()}
            assert loss({each.job: found[each.job] for each in pair}) == best_loss(pair, left)


@given(jobs=applicants(), free=FREE, late=applicants(most=2))
def test_jobs_keep_what_they_were_given(jobs: list[Applicant], free: Free, late: list[Applicant]) -> None:
    """A new job takes what is left, and moves no other."""
    first = assign(jobs, free)
    kept = [
        Applicant(job=one.job, queues=one.queues, options=one.options, kept=first[one.job].option.product)
        for one in jobs
        if first[one.job].fits
    ]
    new = [Applicant(job=f"late-{one.job}", queues=one.queues, options=one.options) for one in late]
    second = assign([*kept, *new], free)
    assert all(second[one.job].option == first[one.job].option for one in kept)
    assert all(gpus <= free.get(pool, gpus) for pool, gpus in used([*kept, *new], second).items())


def test_who_takes_the_cheaper_product() -> None:
    """F-005: the job that would lose most keeps the cheap card; the other is told who has it."""
    cheap, dear = CardOption(product="A100", gpus=8, cost=1.0), CardOption(product="H100", gpus=4, cost=1.25)
    dearer = CardOption(product="H100", gpus=8, cost=3.0)
    jobs = [Applicant(job="a", options=(cheap, dear)), Applicant(job="b", options=(cheap, dearer))]
    found = assign(jobs, {("", "A100"): 8, ("", "H100"): 8})
    assert found["b"] == Assigned(option=cheap, fits=True)
    assert found["a"].option == dear
    assert found["a"].because == "8 x A100 (0.8 times the cost) are taken by b (8)"
    alone = assign(jobs[:1], {("", "A100"): 7})
    assert alone["a"].because == "8 x A100 (0.8 times the cost) are not free"
    nowhere = assign(jobs[:1], {("", "A100"): 7, ("", "H100"): 3})
    assert nowhere["a"] == Assigned(option=cheap, fits=False, because="no product has enough free GPUs")
