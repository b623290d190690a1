"""Who may see what."""

from __future__ import annotations

from typing import Any

from probe.events import Event, Exit
from probe.inquiry import Asker
from probe.job import jobs

USER, ROOT, SESSION = 1000, 0, 50
ASKER = Asker(pid=51, uid=USER, session=SESSION, since_ns=100)


def ended(**told: Any) -> Event:
    return Exit(**{"sequence": 1, "time_ns": 200, "pid": 60, "uid": ROOT, "code": 1, **told})


def test_a_session_is_its_own_from_its_begin() -> None:
    assert ASKER.sees(ended(session=SESSION))
    assert not ASKER.sees(ended(session=SESSION, time_ns=99))  # the number was another's
    assert not Asker(51, USER, SESSION, None).sees(ended(session=SESSION))
    assert not Asker(51, USER, 0, 0).sees(ended(session=SESSION))


def test_another_users_is_not_seen() -> None:
    assert not ASKER.sees(ended(session=7))
    assert ASKER.sees(ended(session=7, uid=USER))
    assert Asker(51, USER, sees_all=True).sees(ended(session=7))


def test_a_job_is_seen_where_all_of_it_is() -> None:
    child = ended(uid=ROOT, session=7, duration_s=1e-8, ppid=60)
    [job] = jobs([child, ended(sequence=2, pid=60, time_ns=300, uid=USER, duration_s=2e-7)])
    assert not ASKER.sees_job(job)
    assert Asker(51, ROOT, sees_all=True).sees_job(job)
    [own] = jobs([ended(uid=USER)])
    assert ASKER.sees_job(own)
