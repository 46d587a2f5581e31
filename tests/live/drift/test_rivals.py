"""Two appliers at the same time: of two repositories, and of one."""

from tests.live.apply.conftest import Site
from tests.live.drift.conftest import AnotherSite

_COUNT = 12


def apply_at_once(*sites: Site) -> list[int]:
    """Apply the saved plans in processes that run at the same time; return their exit codes."""
    processes = [site.start() for site in sites]
    for process in processes:
        process.communicate(timeout=120)
    return [process.returncode for process in processes]


def test_two_repositories_create_the_same_objects_at_the_same_time(site: Site, another_site: AnotherSite) -> None:
    """F-142: an object is that of one repository or of none; never does one overwrite what the other created."""
    site.config_map("first")
    assert site.reconcile().code == 0
    other = another_site("other")
    for owner, text in ((site, "ours"), (other, "theirs")):
        for number in range(_COUNT):
            owner.config_map(f"shared-{number}", a=text)
        assert owner.plan().code == 0
    codes = apply_at_once(site, other)
    assert any(codes), "at least one sees the other"
    listed = {"ours": site.inventory().uids(), "theirs": other.inventory().uids()}
    for number in range(_COUNT):
        key = site.key("ConfigMap", f"shared-{number}")
        body = site.cluster.get(key)
        owners = [text for text, uids in listed.items() if body and body["metadata"]["uid"] in uids.get(key, ())]
        assert owners == ([body["data"]["a"]] if body else []), key
        if body:
            (entry,) = body["metadata"]["managedFields"]
            assert (entry["manager"], entry["operation"]) == ("reconciler", "Apply")


def test_one_plan_is_applied_twice_at_the_same_time(site: Site) -> None:
    """Every object is created once and is in the inventory with its UID, whoever of the two wrote it."""
    for number in range(_COUNT):
        site.config_map(f"settings-{number}")
    assert site.plan().code == 0
    codes = apply_at_once(site, site)
    assert 0 in codes, codes
    assert site.apply().code == 0
    assert site.plan().code == 0
    assert site.changes() == []
    uids = site.inventory().uids()
    for number in range(_COUNT):
        body = site.live("ConfigMap", f"settings-{number}")
        assert body["metadata"]["uid"] in uids[site.key("ConfigMap", f"settings-{number}")]
