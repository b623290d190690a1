"""Waiting for many things at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import TypeVar

Value = TypeVar("Value")


def at_once(
    calls: Sequence[Callable[[], Value]], workers: int, patience_s: float
) -> list[Value | None]:
    """The results in the order of the calls; None for those that were not there in time.

    Where no thread can be had, the calls are made one after another.
    """
    pool = ThreadPoolExecutor(workers)
    end = time.monotonic() + patience_s
    started = [_started(pool, call) for call in calls]
    results = [_result(one, end) for one in started]
    pool.shutdown(wait=False, cancel_futures=True)
    return results


def _started(pool: ThreadPoolExecutor, call: Callable[[], Value]) -> Future[Value]:
    try:
        return pool.submit(call)
    except RuntimeError:
        done: Future[Value] = Future()
        done.set_result(call())
        return done


def _result(future: Future[Value], end: float) -> Value | None:
    try:
        return future.result(max(0.0, end - time.monotonic()))
    except NotYet:
        return None
