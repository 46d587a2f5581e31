"""D-08: the name of a workload is one that Kubernetes accepts, whatever the user and the folder are called."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError
from reconciler.submit.names import MOST, workload_name

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize(
    ("user", "what", "version", "name"),
    [
        ("alice", "pretrain", "", "alice-pretrain"),
        ("alice@example.com", "pretrain", "v1", "alice-pretrain-v1"),
        ("alice", "my-registry/my_image", "", "alice-my-registry-my-image"),
        ("CORP\\Jörg Größe", "Modell Übung", "", "corp-jorg-grosse-modell-ubung"),
        ("1und1", "a.b:c", "2.0", "u1und1-a-b-c-2-0"),
        ("", "", "", "user-workload"),
        ("--", "日本", "", "user-workload"),
    ],
)
def test_f_070_d_08_words_become_a_name(user: str, what: str, version: str, name: str) -> None:
    assert workload_name(user, what, version) == name


def test_f_070_d_08_a_long_name_keeps_its_version_and_stays_distinct() -> None:
    one = workload_name("alice", "a" * 80, "v12")
    other = workload_name("alice", "a" * 81, "v12")
    assert one.endswith("-v12")
    assert other.endswith("-v12")
    assert one != other
    assert {len(one), len(other)} == {MOST}
    long_user = workload_name("u" * 90, "pretrain", "v1")
    assert NAME.fullmatch(long_user)
    with pytest.raises(ConfigError, match="too long"):
        workload_name("alice", "pretrain", "v" * 60)


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=20))
def test_f_070_d_08_every_input_gives_a_valid_name(user: str, what: str, version: str) -> None:
    name = workload_name(user, what, version)
    assert NAME.fullmatch(name)
    assert len(name) <= MOST
