"""Whatever is killed, cut, filled or turned back: each event is stored once, each loss is told."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from world import FAKETIME, LIMIT_S, Store, World, network, tmpfs, until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

KILLS = 14  # in each round; 16 rounds make more than two hundred


def test_random_kills(
    seed: int, store: Store, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """`--seed N` does the same again, as far as a machine does."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    with World(tmp_path, store) as world:
        world.start_collectors()
        world.start_producers(clock=chance.random() < 0.5 and Path(FAKETIME).exists())
        victims: list[Callable[[], None]] = [
            *(one.kill for one in (*world.collectors, *world.producers)),
            *([store.kill] if store.can_be_killed else []),
        ]
        for _ in range(KILLS):
            time.sleep(chance.uniform(0, 0.7))
            if chance.random() < 0.2:
                world.set_clock(chance.choice([-86_400, -3600, -1, 1, 3600, 86_400]))
            chance.choice(victims)()
            time.sleep(chance.choice([0, 0, 0.05, 0.3]))
            for process in (*world.collectors, *world.producers):
                if process.running is not None and process.running.poll() is not None:
                    process.start()
        world.finish()
        told = world.check()
    assert told["events"] > 0 and told["missing"] == 0
    record_property("kills", KILLS)
    record_property("events", told["events"])


def test_a_network_cut_and_slowed(store: Store, tmp_path: Path) -> None:
    chance = random.Random(1)
    with network() as (prefix, change), World(tmp_path, store, prefix=prefix) as world:
        world.start_collectors()
        world.start_producers()
        until(lambda: all(map(world.put, world.sandboxes)))
        for _ in range(6):
            change("ip link set lo down")
            time.sleep(chance.uniform(0.05, 1))
            change("ip link set lo up")
            change("tc qdisc replace dev lo root tbf rate 2mbit burst 16kb latency 30ms")
            time.sleep(chance.uniform(0.1, 1))
            change("tc qdisc del dev lo root")
            time.sleep(chance.uniform(0, 0.3))
        world.finish()
        told = world.check()
    assert told["missing"] == told["lost"] == 0


def test_a_full_disk_under_the_spool(store: Store, tmp_path: Path) -> None:
    """What it takes no more waits in memory, and is sent from there."""
    with World(tmp_path, store, producers=1) as world:
        [sandbox] = world.sandboxes
        with tmpfs(tmp_path / sandbox / "spool", "256k"):
            world.start_producers()
            until(lambda: world.put(sandbox) > 2500)  # of some 250 bytes each
            assert shutil.disk_usage(tmp_path / sandbox / "spool").free < 4096
            world.start_collectors()
            world.finish()
            told = world.check()
    assert told["missing"] == told["lost"] == 0


def test_a_spool_without_room_tells_what_it_gave_up(store: Store, tmp_path: Path) -> None:
    with World(tmp_path, store, producers=1) as world:
        [sandbox] = world.sandboxes
        world.start_producers("1")  # MiB; four segments are the least
        spool = tmp_path / sandbox / "spool"
        until(lambda: len(list(spool.glob("*.segment"))) > 4, 2 * LIMIT_S)
        world.start_collectors()
        world.finish()
        told = world.check()
    assert told["missing"] == told["lost"] > 0


def test_a_full_disk_under_the_store(store: Store, tmp_path: Path) -> None:
    if "://" in store.url:
        pytest.skip("of a file alone")
    with tmpfs(tmp_path / "db", "512k") as folder:
        store.url = str(folder / "c.db")
        with World(tmp_path, store) as world:
            world.start_collectors()
            until(lambda: (folder / "c.db").exists())
            ballast = folder / "ballast"
            with ballast.open("wb") as file:
                file.write(bytes(128 << 10))
            world.start_producers()
            until(lambda: any("not stored" in one.said for one in world.collectors))
            subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
            world.finish()
            told = world.check()
    assert told["missing"] == told["lost"] == 0
