"""What operators see of a load: statistics, OpenMetrics text, log lines."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kernelforge.digest import Digest
from kernelforge.errors import CallRefused, KernelMissing
from kernelforge.loader.kernel_set import KernelSet
from kernelforge.loader.metrics import openmetrics_text
from kernelforge.loader.stats import Counters, LoadStats
from kernelforge.release.facts import facts_bytes
from tests.loader.conftest import Release
from tests.loader.fake_release import KEYS, compile_pack, locked_pack, with_pack
from tests.loader.scale import Scale


def families(text: str) -> dict[str, Any]:
    """The text as Prometheus's own parser reads it; it refuses what breaks the specification."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text: str, family: str, **labels: str) -> float:
    samples = [sample for sample in families(text)[family].samples if labels.items() <= sample.labels.items()]
    (sample,) = samples
    return float(sample.value)


def refuse_once(kernels: KernelSet) -> None:
    with pytest.raises(CallRefused):
        kernels[KEYS[0]]("one")


def miss_once(kernels: KernelSet) -> None:
    with pytest.raises(KernelMissing):
        kernels[Scale.CompileKey(head_dim=96)]


def test_hits_are_keys_and_misses_are_questions(release: Release) -> None:
    """A hit per call would count tokens, not kernels; a miss forgotten would hide a fallback."""
    kernels = release.load()
    before = kernels.stats()
    for _ in range(3):
        kernels[KEYS[0]], kernels[KEYS[1]]
        miss_once(kernels)
    after = kernels.stats()
    assert (before.hits, before.misses, after.hits, after.misses) == (0, 0, 2, 3)


def test_missing_requirements_count_one_by_one(release: Release) -> None:
    kernels = release.load()
    with pytest.raises(KernelMissing):
        kernels.require({Scale: [KEYS[0], Scale.CompileKey(head_dim=1), Scale.CompileKey(head_dim=2)]})
    assert kernels.stats().misses == 2


def test_refused_calls_are_errors_and_no_misses(release: Release) -> None:
    kernels = release.load()
    refuse_once(kernels)
    refuse_once(kernels)
    assert kernels.stats().errors == {"CallRefused": 2}
    assert kernels.stats().misses == 0


def test_statistics_are_a_picture_of_their_moment(release: Release) -> None:
    kernels = release.load()
    before = kernels.stats()
    miss_once(kernels)
    assert before.misses == 0


def test_counters_lose_nothing_between_threads() -> None:
    counters = Counters()

    def count() -> None:
        for _ in range(2000):
            counters.add("waited")
            counters.add_error(OSError())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.snapshot() == {"waited": 8000, "error:OSError": 8000}


def test_the_text_has_every_number_of_the_statistics(release: Release) -> None:
    kernels = release.load()
    kernels[KEYS[0]]
    miss_once(kernels)
    refuse_once(kernels)
    text, stats = kernels.metrics(), kernels.stats()
    assert value(text, "kernelforge_kernels") == 3
    assert value(text, "kernelforge_kernel_classes") == 1
    assert value(text, "kernelforge_pack_bytes") == len(release.library)
    assert value(text, "kernelforge_pack_in_memory") == 0
    assert value(text, "kernelforge_cache_damaged") == 0
    assert value(text, "kernelforge_hits") == 1
    assert value(text, "kernelforge_misses") == 1
    assert value(text, "kernelforge_errors", kind="CallRefused") == 1
    assert value(text, "kernelforge_release", pack_source="store", device="h200-sxm") == 1
    assert value(text, "kernelforge_release", lockfile=str(release.lock.digest), arch="sm_90a") == 1
    for step, seconds in stats.seconds.items():
        assert value(text, "kernelforge_load_seconds", step=step) == seconds


def test_every_family_says_what_it_is_and_times_and_sizes_have_units(release: Release) -> None:
    found = families(release.load().metrics())
    assert all(family.documentation for family in found.values())
    units = {name: family.unit for name, family in found.items() if family.unit}
    assert units == {"kernelforge_load_seconds": "seconds", "kernelforge_pack_bytes": "bytes"}
    assert {found[name].type for name in ("kernelforge_hits", "kernelforge_misses", "kernelforge_errors")} == {
        "counter"
    }


def test_the_text_ends_as_the_format_wants_and_counters_end_in_total(release: Release) -> None:
    lines = release.load().metrics().splitlines()
    assert lines[-1] == "# EOF"
    assert lines.count("# EOF") == 1
    assert "kernelforge_misses_total 0" in lines


def test_a_counter_that_somebody_adds_is_a_metric_without_more_work() -> None:
    stats = LoadStats({}, "store", 1, False, False, 1, 1, counters={"waited": 7})
    text = openmetrics_text(stats, device="h200-sxm", arch="sm_90a", lockfile=Digest.of(b""))
    assert value(text, "kernelforge_waited") == 7


def test_labels_with_quotes_and_newlines_survive() -> None:
    """A profile's name is the manifest author's: it must not be able to add lines to what is scraped."""
    name = 'my "best"\\\ncard'
    text = openmetrics_text(
        LoadStats({}, "store", 1, False, False, 1, 1), device=name, arch="sm_90a", lockfile=Digest.of(b"")
    )
    assert value(text, "kernelforge_release", device=name) == 1


def facts_of(release: Release, *, skip: int = 0) -> bytes:
    entries = release.lock.entries[skip:]
    return facts_bytes(release.lock.digest, {str(entry.key_digest): {"seconds": 1.5} for entry in entries})


def test_seconds_saved_are_those_of_the_loaded_kernels(release: Release, tmp_path: Path) -> None:
    (tmp_path / "x.facts.json").write_bytes(facts_of(release, skip=1))
    kernels = release.load(facts=tmp_path / "x.facts.json")
    assert kernels.stats().saved_s == 3.0
    assert value(kernels.metrics(), "kernelforge_saved_seconds") == 3.0


def test_without_build_facts_nothing_is_claimed_to_be_saved(release: Release) -> None:
    kernels = release.load()
    assert kernels.stats().saved_s is None
    assert "kernelforge_saved_seconds" not in families(kernels.metrics())


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"not JSON",
        b'{"schema": "kernelforge.facts/9", "lock": "", "keys": {}}',
        b'{"schema": "kernelforge.facts/1", "lock": "", "keys": {}}',
    ],
    ids=["absent", "garbage", "another schema", "no keys"],
)
def test_build_facts_that_are_wrong_cost_the_number_and_not_the_load(
    release: Release, tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.facts.json"
    if content is not None:
        path.write_bytes(content)
    kernels = release.load(facts=path)
    assert kernels.stats().saved_s is None
    assert kernels[KEYS[0]](1) == 1
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert str(path) in warnings[0]


def test_facts_without_seconds_are_counted_as_an_error(release: Release, tmp_path: Path) -> None:
    entry = release.lock.entries[0]
    (tmp_path / "x.facts.json").write_bytes(facts_bytes(release.lock.digest, {str(entry.key_digest): {}}))
    assert release.load(facts=tmp_path / "x.facts.json").stats().errors == {"KeyError": 1}


def test_one_line_at_info_and_every_step_at_debug(release: Release, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="kernelforge")
    kernels = release.load()
    info = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    debug = [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]
    assert len(info) == 1
    for said in ("3 kernels of 1 classes", "h200-sxm", str(release.lock.digest), f"{len(release.library)} bytes"):
        assert said in info[0]
    for step in kernels.stats().seconds:
        assert sum(line.startswith(f"{step}: ") for line in debug) >= 1, step
    assert {"read_lockfile", "find_device", "check_driver", "fetch_pack", "dlopen", "require"} <= set(
        kernels.stats().seconds
    )


def test_the_line_tells_of_memory_and_of_seconds_saved(
    release: Release, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kernelforge")
    (tmp_path / "file").touch()
    (tmp_path / "x.facts.json").write_bytes(facts_of(release))
    release.load(cache=tmp_path / "file" / "cache", facts=tmp_path / "x.facts.json")
    line = next(record.getMessage() for record in caplog.records if record.levelname == "INFO")
    assert "in memory" in line
    assert "4.5 s of compiling saved" in line


def test_a_damaged_cache_and_a_pack_in_memory_show(release: Release, tmp_path: Path) -> None:
    """E2: counted, so that a rotting disk is seen before it has no good copy left."""
    (tmp_path / "second").mkdir()
    other = compile_pack(tmp_path / "second", [*(entry.symbol for entry in release.lock.entries), "kf_more"])
    lock = with_pack(release.lock, blob=locked_pack(other).blob)
    from kernelforge.store.blobs import put_blob

    put_blob(release.store, other, compress=False)
    path = release.cache / "packs" / f"{lock.packs['h200-sxm'].blob.content_digest.hex}.so"
    path.parent.mkdir(parents=True, mode=0o700)
    release.cache.chmod(0o700)
    path.write_bytes(b"damaged")
    kernels = release.load(lock)
    assert value(kernels.metrics(), "kernelforge_cache_damaged") == 1


def test_numbers_can_be_written_as_json(release: Release) -> None:
    """For a log line of the engine's own."""
    from dataclasses import asdict

    assert json.loads(json.dumps(asdict(release.load().stats())))["kernels"] == 3
