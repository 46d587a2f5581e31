"""Downloads that go wrong half-way: no half file, no marker, and the next run continues."""

import signal
from collections.abc import Callable

import pytest

from tests.cluster.server import wait_until
from tests.download.conftest import Volume
from tests.download.servers import Gate, Served

SIZE = 3 << 20
MODEL = bytes(range(256)) * (SIZE // 256)


def _hub(hub: Served, **files: bytes) -> None:
    hub.objects |= {f"org/llm/{name}": content for name, content in files.items()}


def _model(volume: Volume) -> bytes:
    return next((volume.folder / "hf/hub/models--org--llm/snapshots").glob("*/model.safetensors")).read_bytes()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_download_is_continued(volume: Volume, hub: Served, ending: signal.Signals) -> None:
    """KA-23: killed half-way, there is no half file under its name; the next run asks for the rest alone."""
    _hub(hub, **{"model.safetensors": MODEL, "config.json": b"{}"})
    gate = Gate(parts=SIZE // 65536 // 2)
    hub.pace = gate
    volume.configure(hf=[{"repoId": "org/llm"}], maxWorkers=1)
    process = volume.start("-o", "json")
    assert gate.reached.wait(120)
    blobs = volume.folder / "hf/hub/models--org--llm/blobs"
    wait_until(lambda: any(path.stat().st_size > 2 for path in blobs.glob("*.part")), "bytes on the volume")
    process.send_signal(ending)
    if ending == signal.SIGTERM:
        gate.opened.set()
    out, _ = process.communicate(timeout=120)
    gate.opened.set()
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143}[ending]
    assert out == ""
    unfinished = [path for path in blobs.iterdir() if path.stat().st_size not in {SIZE, 2}]
    assert [path.suffix for path in unfinished] == [".part"]
    assert volume.markers() == []
    kept = unfinished[0].stat().st_size
    hub.requests.clear()
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    assert _model(volume) == MODEL
    assert [headers["Range"] for _, path, headers in hub.requests if path.endswith(".safetensors")] == [
        f"bytes={kept}-"
    ]
    assert volume.markers() == ["first"]
    assert not list(blobs.glob("*.part"))


def _busy(served: Served, name: str) -> None:
    served.failures[name] = 2


def _short(served: Served, name: str) -> None:
    served.cut[name] = SIZE // 2


@pytest.mark.parametrize("trouble", [_busy, _short])
def test_three_attempts(volume: Volume, gcs: Served, trouble: Callable[[Served, str], None]) -> None:
    """A busy server and a body that ends early are tried again, from where it ended."""
    gcs.objects["b/model.bin"] = MODEL
    trouble(gcs, "b/model.bin")
    volume.configure(gcs=[{"buckets": [{"name": "b", "files": [{"path": "model.bin"}]}]}])
    ran = volume.run()
    assert (ran.code, ran.err) == (0, "")
    assert volume.files() == {"model.bin": MODEL}


def test_no_fourth_attempt(volume: Volume, gcs: Served) -> None:
    """After three attempts the item has failed: exit code 6, no marker, and the earlier file stays."""
    gcs.objects["b/model.bin"] = b"first"
    volume.configure(gcs=[{"buckets": [{"name": "b", "files": [{"path": "model.bin"}]}]}])
    assert volume.run().code == 0
    gcs.objects["b/model.bin"] = b"second"
    gcs.failures["b/model.bin"] = 3
    gcs.requests.clear()
    ran = volume.run()
    assert ran.code == 6
    assert len(gcs.bodies()) == 3
    assert volume.files()["model.bin"] == b"first"
    assert volume.markers() == []
    assert volume.run().code == 0
    assert volume.files() == {"model.bin": b"second"}


@pytest.mark.parametrize("key", ["model.bin", "model.composed"])
def test_what_is_damaged_is_not_kept(volume: Volume, gcs: Served, key: str) -> None:
    """A body that does not have the stated checksum never gets the name of the file; unverifiable ones do."""
    gcs.objects[f"b/{key}"] = b"content"
    gcs.damaged.add(f"b/{key}")
    volume.configure(gcs=[{"buckets": [{"name": "b", "files": [{"path": key}]}]}])
    ran = volume.run("-o", "text")
    if key == "model.composed":  # without a checksum, only its size is known
        assert ran.code == 0
        assert len(volume.files()[key]) == len(b"content")
        return
    assert ran.code == 6
    assert "size or checksum differs" in ran.err
    assert volume.files() in ({}, {f"{key}.part": b""})


def test_links_and_foreign_keys_lead_nowhere(volume: Volume, gcs: Served) -> None:
    """KA-23: a symbolic link on the mount, and a key with `..` in a bucket, are refused; nothing outside is written."""
    outside = volume.folder / "outside"
    outside.mkdir()
    (volume.root / "linked").symlink_to(outside)
    (volume.root / "file.txt").symlink_to(outside / "file.txt")
    gcs.objects |= {"b/a.txt": b"a", "evil/x/../../a.txt": b"a"}
    files = [{"path": "a.txt", "targetPath": "linked/a.txt"}, {"path": "a.txt", "targetPath": "file.txt"}]
    volume.configure(gcs=[{"buckets": [{"name": "b", "files": files}, {"name": "evil", "folders": [{"path": "x"}]}]}])
    ran = volume.run("-o", "text")
    assert ran.code == 3
    assert ran.err.count("leads through a symbolic link") == 2
    assert "leaves its folder by `..`" in ran.err
    assert list(outside.iterdir()) == []


def test_a_changed_specification_fetches_the_difference(volume: Volume, gcs: Served) -> None:
    """KA-23: a wider glob and a new file are fetched, and what is there is not; the marker is that of the new one."""
    gcs.objects |= {"b/d/a.csv": b"a", "b/d/b.txt": b"b", "b/c.bin": b"c"}
    volume.configure(gcs=[{"buckets": [{"name": "b", "folders": [{"path": "d", "targetPath": "d", "glob": "*.csv"}]}]}])
    assert volume.run().code == 0
    gcs.bodies()
    bucket = {"name": "b", "folders": [{"path": "d", "targetPath": "d"}], "files": [{"path": "c.bin"}]}
    volume.configure(marker="second", gcs=[{"buckets": [bucket]}])
    assert volume.run().code == 0
    assert sorted(gcs.bodies()) == ["b/c.bin", "b/d/b.txt"]
    assert volume.markers() == ["second"]
    (volume.root / "d/a.csv").write_bytes(b"edited")
    assert volume.run().code == 0
    assert gcs.bodies() == ["b/d/a.csv"]
    assert volume.files()["d/a.csv"] == b"a"


def test_items_that_write_the_same_file(volume: Volume, gcs: Served) -> None:
    """Two folders with a file of one name: both are refused, whatever would have come last."""
    gcs.objects |= {"b/x/a": b"1", "b/y/a": b"2"}
    folders = [{"path": "x", "targetPath": "t"}, {"path": "y", "targetPath": "t"}]
    volume.configure(gcs=[{"buckets": [{"name": "b", "folders": folders}]}])
    ran = volume.run("-o", "text")
    assert ran.code == 3
    assert ran.err.count("two items write") == 2
    assert volume.files() == {}
