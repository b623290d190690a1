"""A thin binding to the system's libbpf: objects, programs, maps and the ring buffer.

Only what the core engine calls, one method a function of libbpf.h (version 1.0 or newer).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Mapping
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_int,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TypeVar

SONAME = "libbpf.so.1"

Key = TypeVar("Key", bound=ctypes.Structure)

_LOG_SIZE = 1 << 20  # a refusal carries the whole log of the verifier

_PRINT = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
_SAMPLE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)

_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "libbpf_set_print": (c_void_p, [_PRINT]),
    "bpf_object__open_file": (c_void_p, [c_char_p, c_void_p]),
    "bpf_object__load": (c_int, [c_void_p]),
    "bpf_object__close": (None, [c_void_p]),
    "bpf_object__find_program_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_object__find_map_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_program__set_autoload": (c_int, [c_void_p, c_bool]),
    "bpf_program__attach": (c_void_p, [c_void_p]),
    "bpf_link__destroy": (c_int, [c_void_p]),
    "bpf_map__fd": (c_int, [c_void_p]),
    "bpf_map__initial_value": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "bpf_map_update_elem": (c_int, [c_int, c_void_p, c_void_p, c_uint64]),
    "bpf_map_update_batch": (c_int, [c_int, c_void_p, c_void_p, POINTER(c_uint32), c_void_p]),
    "bpf_map_lookup_elem": (c_int, [c_int, c_void_p, c_void_p]),
    "bpf_map_delete_elem": (c_int, [c_int, c_void_p]),
    "bpf_map_get_next_key": (c_int, [c_int, c_void_p, c_void_p]),
    "ring_buffer__new": (c_void_p, [c_int, _SAMPLE, c_void_p, c_void_p]),
    "ring_buffer__consume": (c_int, [c_void_p]),
    "ring_buffer__epoll_fd": (c_int, [c_void_p]),
    "ring_buffer__free": (None, [c_void_p]),
}


class BpfError(OSError):
    """A libbpf call failed; `log` holds what libbpf said about it."""

    def __init__(self, code: int, what: str, log: str = "") -> None:
        super().__init__(code, f"{what}: {os.strerror(code)}")
        self.log = log


class Libbpf:
    """The shared library, with its messages collected instead of printed."""

    def __init__(self) -> None:
        """Raises OSError when the library is not installed or too old."""
        self._lib = ctypes.CDLL(SONAME, use_errno=True)
        self._libc = ctypes.CDLL(None)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._lib, name, None)
            if function is None:
                raise OSError(errno.ENOSYS, f"{SONAME} has no {name}: version 1.0 is needed")
            function.restype, function.argtypes = result, arguments
        self.messages: list[str] = []
        self._print = _PRINT(self._collect)
        self._lib.libbpf_set_print(self._print)

    def _collect(self, level: int, template: bytes, arguments: int) -> int:
        # A va_list is handed on as a pointer in the C ABI of x86-64 and of arm64 alike.
        if level > 1:
            return 0
        text = ctypes.create_string_buffer(_LOG_SIZE)
        self._libc.vsnprintf(text, c_size_t(len(text)), c_char_p(template), c_void_p(arguments))
        self.messages.append(text.value.decode(errors="replace"))
        return 0

    def call(self, name: str, *arguments: object) -> int:
        """Calls one function; a negative int or a null pointer raises BpfError."""
        result = getattr(self._lib, name)(*arguments)
        restype = _SIGNATURES[name][0]
        if restype is c_int and result < 0:
            raise BpfError(-result if result != -1 else ctypes.get_errno() or 1, name, self._log())
        if restype is c_void_p and not result and name != "libbpf_set_print":
            raise BpfError(ctypes.get_errno() or errno.ENOENT, name, self._log())
        return result or 0

    def _log(self) -> str:
        text = "".join(self.messages)
        self.messages.clear()
        return text


class Object:
    """One compiled BPF object: opened, then loaded, its programs attached one by one."""

    def __init__(self, library: Libbpf, path: str) -> None:
        self._library = library
        self._object = library.call("bpf_object__open_file", os.fsencode(path), None)
        self._links: list[int] = []

    def _program(self, name: str) -> int:
        return self._library.call("bpf_object__find_program_by_name", self._object, name.encode())

    def _map(self, name: str) -> int:
        return self._library.call("bpf_object__find_map_by_name", self._object, name.encode())

    def leave_out(self, program: str) -> None:
        """Keeps a program from being loaded."""
        self._library.call("bpf_program__set_autoload", self._program(program), False)

    def set_initial(self, section: str, value: ctypes.Structure) -> None:
        """Fills a data section before loading; a map's update changes it afterwards."""
        size = c_size_t()
        memory = self._library.call("bpf_map__initial_value", self._map(section), byref(size))
        if size.value != ctypes.sizeof(value):
            raise BpfError(errno.EINVAL, f"{section} holds {size.value} bytes")
        ctypes.memmove(memory, byref(value), size.value)

    def load(self) -> None:
        self._library.call("bpf_object__load", self._object)

    def attach(self, program: str) -> None:
        self._links.append(self._library.call("bpf_program__attach", self._program(program)))

    def map(self, name: str) -> Map:
        fd = self._library.call("bpf_map__fd", self._map(name))
        return Map(self._library, fd)

    def close(self) -> None:
        for link in self._links:
            self._library.call("bpf_link__destroy", link)
        self._links.clear()
        self._library.call("bpf_object__close", self._object)


class Map:
    """One BPF map, keys and values as ctypes objects."""

    def __init__(self, library: Libbpf, fd: int) -> None:
        self._library = library
        self.fd = fd

    def update(self, key: object, value: object) -> None:
        self._library.call("bpf_map_update_elem", self.fd, byref(key), byref(value), 0)  # type: ignore[arg-type]

    def fill(self, values: Mapping[int, ctypes.Structure]) -> None:
        """Many entries of an array at once (Linux 5.6)."""
        count = c_uint32(len(values))
        keys = (c_uint32 * len(values))(*values)
        entries = (type(next(iter(values.values()))) * len(values))(*values.values())
        self._library.call(
            "bpf_map_update_batch", self.fd, byref(keys), byref(entries), byref(count), None
        )

    def lookup(self, key: object, into: object) -> bool:
        """Fills `into`; False where the key is not there."""
        try:
            self._library.call("bpf_map_lookup_elem", self.fd, byref(key), byref(into))  # type: ignore[arg-type]
        except BpfError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def delete(self, key: object) -> None:
        """Removes the key; it need not be there."""
        try:
            self._library.call("bpf_map_delete_elem", self.fd, byref(key))  # type: ignore[arg-type]
        except BpfError as error:
            if error.errno != errno.ENOENT:
                raise

    def keys(self, key_type: type[Key]) -> list[Key]:
        found: list[Key] = []
        previous: object = None
        while True:
            key = key_type()
            before = byref(previous) if previous is not None else None  # type: ignore[arg-type]
            try:
                self._library.call("bpf_map_get_next_key", self.fd, before, byref(key))
            except BpfError as error:
                if error.errno == errno.ENOENT:
                    return found
                raise
            found.append(key)
            previous = key


class RingBuffer:
    """The consumer's side of a BPF_MAP_TYPE_RINGBUF."""

    def __init__(self, library: Libbpf, source: Map, receive: Callable[[int, int], None]) -> None:
        """`receive` is called with address and size of each record, valid during the call."""

        def sample(_context: int, address: int, size: int) -> int:
            receive(address, size)
            return 0

        self._library = library
        self._callback = _SAMPLE(sample)
        self._ring = library.call("ring_buffer__new", source.fd, self._callback, None, None)

    def fileno(self) -> int:
        """Becomes readable when records are there."""
        return self._library.call("ring_buffer__epoll_fd", self._ring)

    def consume(self) -> int:
        """Hands over everything that is in the ring; the number of records."""
        return self._library.call("ring_buffer__consume", self._ring)

    def close(self) -> None:
        self._library.call("ring_buffer__free", self._ring)


__all__ = ["SONAME", "BpfError", "Libbpf", "Map", "Object", "RingBuffer"]
