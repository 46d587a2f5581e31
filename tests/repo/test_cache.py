"""The Cache port, on memory and on disk; and what may happen to files on a disk."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.index.cache import DiskCache, cache_folder
from reconciler.repo.port import Cache
from tests.fakes.cache import MemoryCache


@pytest.fixture(params=["memory", "disk"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    return MemoryCache() if request.param == "memory" else DiskCache(tmp_path / "cache")


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_what_was_put_comes_back(cache: Cache) -> None:
    assert cache.get("a") is None
    cache.put("a", b"1")
    cache.put("b/../../é\udcff", b"")
    assert (cache.get("a"), cache.get("b/../../é\udcff"), cache.get("A")) == (b"1", b"", None)
    cache.put("a", b"2" * 5_000_000)
    assert cache.get("a") == b"2" * 5_000_000


def test_what_another_installation_has_kept_is_a_miss_and_replaced(tmp_path: Path) -> None:
    """A developer's edit of the engine, or a new version of a library, may change every answer."""
    old, new = DiskCache(tmp_path, stamp="old"), DiskCache(tmp_path, stamp="new")
    old.put("a", b"1")
    assert new.get("a") is None
    new.put("a", b"2")
    assert (old.get("a"), new.get("a"), len(files(tmp_path))) == (None, b"2", 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(key=st.text(), value=st.binary(), damage=st.binary(max_size=200), at=st.integers(0, 200))
def test_any_damage_is_a_miss(tmp_path: Path, key: str, value: bytes, damage: bytes, at: int) -> None:
    folder = tmp_path / "cache"
    shutil.rmtree(folder, ignore_errors=True)
    DiskCache(folder).put(key, value)
    [path] = files(folder)
    before = path.read_bytes()
    after = before[:at] + damage
    path.write_bytes(after)
    assert DiskCache(folder).get(key) == (value if after == before else None)


def test_a_file_of_another_key_is_a_miss(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("a", b"1")
    [first] = files(tmp_path)
    cache.put("b", b"2")
    [second] = [path for path in files(tmp_path) if path != first]
    shutil.copy(first, second)
    assert cache.get("b") is None


def test_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        DiskCache(tmp_path / "a" / "cache").put("a", b"1")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a" / "cache").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path / "a" / "cache")] == [0o600]


def test_links_pipes_and_folders_in_place_of_a_file_are_misses(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("a", b"1")
    [path] = files(tmp_path / "cache")
    real = path.rename(tmp_path / "real")
    path.symlink_to(real)
    assert cache.get("a") is None
    path.unlink()
    os.mkfifo(path)
    assert cache.get("a") is None
    path.unlink()
    path.mkdir()
    assert cache.get("a") is None
    cache.put("a", b"2")
    assert cache.get("a") is None
    assert len(files(tmp_path / "cache")) == 1


def test_it_works_without_a_usable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for folder in (None, tmp_path / "file", tmp_path / "file" / "below", tmp_path / "shared", tmp_path / "link"):
        cache = DiskCache(folder)
        cache.put("a", b"1")
        assert cache.get("a") is None
    assert not files(tmp_path / "shared")


def test_it_may_be_deleted_at_any_time(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("a", b"1")
    shutil.rmtree(tmp_path / "cache")
    assert cache.get("a") is None
    cache.put("a", b"2")
    assert cache.get("a") == b"2"


def test_a_full_disk_is_no_failure(tmp_path: Path) -> None:
    """With a file size limit of zero every write fails as on a full disk."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from reconciler.index.cache import DiskCache\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "cache = DiskCache(Path(sys.argv[1])); resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "cache.put('a', b'1' * 100000); assert cache.get('a') is None"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert not files(tmp_path)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=100_000)
    for number in range(9):
        cache.put(str(number), bytes(10_000))
    for age, path in enumerate(files(tmp_path)):
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get("3") is not None  # used just now
    cache.put("x", bytes(20_000))
    left = {key for key in (*map(str, range(9)), "x") if cache.get(key) is not None}
    assert {"3", "x"} <= left
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 75_000
    cache.put("huge", bytes(200_000))
    assert cache.get("huge") is None


def test_half_written_files_of_dead_processes_are_swept(tmp_path: Path) -> None:
    (tmp_path / "new-old").write_bytes(b"x")
    os.utime(tmp_path / "new-old", (1000, 1000))
    (tmp_path / "new-young").write_bytes(b"x")
    DiskCache(tmp_path).put("a", b"1")
    assert [path.name for path in files(tmp_path) if path.name.startswith("new-")] == ["new-young"]


def test_processes_that_write_at_once_see_whole_values_only(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from reconciler.index.cache import DiskCache\n"
        "cache = DiskCache(Path(sys.argv[1]), max_bytes=3_000_000)\n"
        "for turn in range(60):\n"
        "    cache.put('shared', sys.argv[2].encode() * 500_000); cache.put(sys.argv[2] + str(turn), bytes(100_000))\n"
        "    value = cache.get('shared'); assert value is None or len(set(value)) == 1 and len(value) == 500_000\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), letter]) for letter in "abc"]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 6_000_000


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/gpu-reconciler"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}, "/c/gpu-reconciler"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "c"}, "/home/a/.cache/gpu-reconciler"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": ""}, "/home/a/.cache/gpu-reconciler"),
        ({"HOME": "/home/a", "RECONCILER_CACHE_DIR": "/own"}, "/own"),
        ({"HOME": "/home/a", "RECONCILER_CACHE_DIR": ""}, None),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_where_it_is(environ: dict[str, str], folder: str | None) -> None:
    assert cache_folder(environ) == (folder and Path(folder))
