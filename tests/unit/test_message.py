"""Events and spans survive the wire, and the wire has a place for each of their fields."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe import events, message
from probe.coverage import Coverage, Losses
from probe.span import Span
from probe.wire import stream_pb2 as wire

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
BY_TYPE = {
    str: TEXT,
    int: st.integers(0, 2**31 - 1),
    float: st.floats(0, 1e9, allow_nan=False),
    bool: st.booleans(),
}


def strategy(hint: object) -> st.SearchStrategy[object]:
    if typing.get_origin(hint) is tuple:
        return st.lists(BY_TYPE[typing.get_args(hint)[0]], max_size=4).map(tuple)
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if options:
        return st.none() | BY_TYPE[options[0]]
    return BY_TYPE[typing.cast(type, hint)]


def event_strategy(kind: type[events.Event]) -> st.SearchStrategy[events.Event]:
    hints = typing.get_type_hints(kind)
    of_class = {name for name, hint in hints.items() if typing.get_origin(hint) is typing.ClassVar}
    fields = {
        name: strategy(hint) for name, hint in hints.items() if name not in {"time_ns", *of_class}
    }
    times = st.integers(0, 4_102_444_800_000_000).map(lambda micro: micro * 1000)
    return st.builds(kind, time_ns=times, **fields)


EVENTS = st.one_of([event_strategy(kind) for kind in events.KINDS.values()])


@given(EVENTS)
def test_an_event_survives_the_wire(event: events.Event) -> None:
    data = message.event_message(event).SerializeToString()
    assert message.event_from(wire.Event.FromString(data)) == event


@given(EVENTS)
def test_an_event_survives_json(event: events.Event) -> None:
    again = events.from_json(event.as_json())
    assert again.as_json() == event.as_json()


@pytest.mark.parametrize("kind", events.KINDS.values(), ids=lambda kind: kind.kind)
def test_the_wire_mirrors_the_fields_of_each_kind(kind: type[events.Event]) -> None:
    detail = wire.Event.DESCRIPTOR.fields_by_name[kind.kind].message_type
    assert [field.name for field in detail.fields] == list(events.detail_fields(kind))
    hints = typing.get_type_hints(kind)
    for field in detail.fields:
        repeated = typing.get_origin(hints[field.name]) is tuple
        optional = type(None) in typing.get_args(hints[field.name])
        assert field.is_repeated == repeated, field.name
        assert field.has_presence == optional, field.name


def test_an_event_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        message.event_from(wire.Event(sequence=1))


@given(
    st.builds(
        Span,
        key=st.integers(0, 2**63 - 1),
        run=TEXT,
        test=TEXT,
        command=st.lists(TEXT, max_size=4).map(tuple),
        sandbox=TEXT,
        boot=TEXT,
        pid=st.integers(0, 2**31 - 1),
        started_ns=st.integers(0, 2**62),
        ended_ns=st.none() | st.integers(0, 2**62),
        exit_code=st.none() | st.integers(0, 255),
        signal=st.none() | TEXT,
        message=st.none() | TEXT,
        labels=st.dictionaries(TEXT, TEXT, max_size=3),
    ),
    st.dictionaries(st.sampled_from(["exec", "seccomp"]), st.integers(0, 2**40)),
)
def test_a_span_survives_the_wire(span: Span, lost: dict[str, int]) -> None:
    coverage = Coverage("core", {"exec": "full", "dns": "none: why"}, "cgroup")
    data = message.span_message(span, coverage, Losses(lost)).SerializeToString()
    again = message.span_from(wire.Span.FromString(data), span.sandbox, span.boot)
    assert again == (span, coverage, Losses(lost))
