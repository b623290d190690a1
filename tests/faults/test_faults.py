"""Whatever is killed, cut, filled or turned back: each event is stored once, each loss is told."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FAULTS_BASE
from world import FAKETIME, LIMIT_S, Store, World, mortal, network, store, tmpfs, until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

__all__ = ["mortal", "store"]
KILLS = 14  # in each round; 16 rounds make more than two hundred


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        given, chance = metafunc.config.getoption("--seed"), random.Random(os.environ[FAULTS_BASE])
        rounds = metafunc.config.getoption("--rounds")
        seeds = [given] if given is not None else chance.sample(range(1_000_000), rounds)
        metafunc.parametrize("seed", seeds)


def test_random_kills(
    seed: int, store: Store, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """`--seed N` does the same again, as far as a machine does."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    with World(tmp_path, store) as place:
        place.start_collectors()
        place.start_producers(clock=chance.random() < 0.5 and Path(FAKETIME).exists())
        victims: list[Callable[[], None]] = [
            *(one.kill for one in (*place.collectors, *place.producers)),
            *([store.kill] if store.can_be_killed else []),
        ]
        for _ in range(KILLS):
            if chance.random() < 0.3:
                time.sleep(chance.uniform(0, 0.5))  # perhaps while they begin, or take up
            else:
                place.await_events(chance.randrange(1, 300))
            if chance.random() < 0.2:
                place.set_clock(chance.choice([-86_400, -3600, -1, 1, 3600, 86_400]))
            chance.choice(victims)()
            time.sleep(chance.choice([0, 0, 0.05, 0.3]))
            for process in (*place.collectors, *place.producers):
                if process.running is not None and process.running.poll() is not None:
                    process.start()
        place.finish()
        told = place.check()
    assert told["events"] > 0 and told["missing"] == 0
    record_property("kills", KILLS)
    record_property("events", told["events"])


def test_a_network_cut_and_slowed(store: Store, tmp_path: Path) -> None:
    chance = random.Random(1)
    with network() as (prefix, change), World(tmp_path, store, prefix=prefix) as place:
        place.start_collectors()
        place.start_producers()
        until(lambda: all(map(place.put, place.sandboxes)))
        for _ in range(6):
            change("ip link set lo down")
            time.sleep(chance.uniform(0.05, 1))
            change("ip link set lo up")
            change("tc qdisc replace dev lo root tbf rate 2mbit burst 16kb latency 30ms")
            time.sleep(chance.uniform(0.1, 1))
            change("tc qdisc del dev lo root")
            time.sleep(chance.uniform(0, 0.3))
        place.finish()
        told = place.check()
    assert told["missing"] == told["lost"] == 0


def test_a_full_disk_under_the_spool(store: Store, tmp_path: Path) -> None:
    """What it takes no more waits in memory, and is sent from there."""
    with World(tmp_path, store, producers=1) as place:
        [sandbox] = place.sandboxes
        with tmpfs(tmp_path / sandbox / "spool", "256k"):
            place.start_producers()
            until(lambda: place.put(sandbox) > 2500)  # of some 250 bytes each
            assert shutil.disk_usage(tmp_path / sandbox / "spool").free < 4096
            place.start_collectors()
            place.finish()
            told = place.check()
    assert told["missing"] == told["lost"] == 0


def test_a_spool_without_room_tells_what_it_gave_up(store: Store, tmp_path: Path) -> None:
    with World(tmp_path, store, producers=1) as place:
        [sandbox] = place.sandboxes
        place.start_producers("1")  # MiB; four segments are the least
        spool = tmp_path / sandbox / "spool"
        until(lambda: len(list(spool.glob("*.segment"))) > 4, 2 * LIMIT_S)
        place.start_collectors()
        place.finish()
        told = place.check()
    assert told["missing"] == told["lost"] > 0


def test_a_full_disk_under_the_store(store: Store, tmp_path: Path) -> None:
    if "://" in store.url:
        pytest.skip("of a file alone")
    with tmpfs(tmp_path / "db", "512k") as folder:
        store.url = str(folder / "c.db")
        with World(tmp_path, store) as place:
            place.start_collectors()
            until(lambda: (folder / "c.db").exists())
            ballast = folder / "ballast"
            with ballast.open("wb") as file:
                file.write(bytes(128 << 10))
            place.start_producers()
            until(lambda: any("not stored" in one.said for one in place.collectors))
            subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
            place.finish()
            told = place.check()
    assert told["missing"] == told["lost"] == 0
