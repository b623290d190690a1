from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProbeMessage(_message.Message):
    __slots__ = ("hello", "batch")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    batch: Batch
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class CollectorMessage(_message.Message):
    __slots__ = ("welcome", "acknowledgement", "time_ns")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENT_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    acknowledgement: Acknowledgement
    time_ns: int
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., acknowledgement: _Optional[_Union[Acknowledgement, _Mapping]] = ..., time_ns: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("sandbox", "boot", "version", "coverage", "time_ns")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    sandbox: str
    boot: str
    version: str
    coverage: Coverage
    time_ns: int
    def __init__(self, sandbox: _Optional[str] = ..., boot: _Optional[str] = ..., version: _Optional[str] = ..., coverage: _Optional[_Union[Coverage, _Mapping]] = ..., time_ns: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("acknowledged", "window")
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    acknowledged: int
    window: int
    def __init__(self, acknowledged: _Optional[int] = ..., window: _Optional[int] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("sequence", "window", "pause_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PAUSE_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    window: int
    pause_ms: int
    def __init__(self, sequence: _Optional[int] = ..., window: _Optional[int] = ..., pause_ms: _Optional[int] = ...) -> None: ...

class Coverage(_message.Message):
    __slots__ = ("engine", "senses", "attribution")
    class SensesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    SENSES_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    engine: str
    senses: _containers.ScalarMap[str, str]
    attribution: str
    def __init__(self, engine: _Optional[str] = ..., senses: _Optional[_Mapping[str, str]] = ..., attribution: _Optional[str] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("items", "clock")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Item]
    clock: Clock
    def __init__(self, items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., clock: _Optional[_Union[Clock, _Mapping]] = ...) -> None: ...

class Clock(_message.Message):
    __slots__ = ("heard_ns", "received_ns", "sent_ns")
    HEARD_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    heard_ns: int
    received_ns: int
    sent_ns: int
    def __init__(self, heard_ns: _Optional[int] = ..., received_ns: _Optional[int] = ..., sent_ns: _Optional[int] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("sequence", "event", "span")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    event: Event
    span: Span
    def __init__(self, sequence: _Optional[int] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., span: _Optional[_Union[Span, _Mapping]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("key", "run", "test", "command", "started_ns", "ended_ns", "exit_code", "signal", "outcome", "message", "pid", "whole_process", "coverage", "lost", "labels", "features", "transfers")
    class LostEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    WHOLE_PROCESS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    key: int
    run: str
    test: str
    command: _containers.RepeatedScalarFieldContainer[str]
    started_ns: int
    ended_ns: int
    exit_code: int
    signal: str
    outcome: str
    message: str
    pid: int
    whole_process: bool
    coverage: Coverage
    lost: _containers.ScalarMap[str, int]
    labels: _containers.ScalarMap[str, str]
    features: _containers.RepeatedScalarFieldContainer[str]
    transfers: _containers.RepeatedCompositeFieldContainer[Transfer]
    def __init__(self, key: _Optional[int] = ..., run: _Optional[str] = ..., test: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., exit_code: _Optional[int] = ..., signal: _Optional[str] = ..., outcome: _Optional[str] = ..., message: _Optional[str] = ..., pid: _Optional[int] = ..., whole_process: _Optional[bool] = ..., coverage: _Optional[_Union[Coverage, _Mapping]] = ..., lost: _Optional[_Mapping[str, int]] = ..., labels: _Optional[_Mapping[str, str]] = ..., features: _Optional[_Iterable[str]] = ..., transfers: _Optional[_Iterable[_Union[Transfer, _Mapping]]] = ...) -> None: ...

class Transfer(_message.Message):
    __slots__ = ("name", "at", "outward", "length", "hash", "prefixes", "variants")
    class VariantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    OUTWARD_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PREFIXES_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    at: str
    outward: bool
    length: int
    hash: str
    prefixes: _containers.RepeatedScalarFieldContainer[str]
    variants: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., at: _Optional[str] = ..., outward: _Optional[bool] = ..., length: _Optional[int] = ..., hash: _Optional[str] = ..., prefixes: _Optional[_Iterable[str]] = ..., variants: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "time_ns", "pid", "tid", "ppid", "uid", "comm", "exe", "count", "span", "mnt_ns", "inner_pid", "session", "seccomp", "syscall", "exec", "fork", "exit", "connect", "dns", "oom", "file", "signal", "limit", "loss")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    TID_FIELD_NUMBER: _ClassVar[int]
    PPID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    COMM_FIELD_NUMBER: _ClassVar[int]
    EXE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    MNT_NS_FIELD_NUMBER: _ClassVar[int]
    INNER_PID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SECCOMP_FIELD_NUMBER: _ClassVar[int]
    SYSCALL_FIELD_NUMBER: _ClassVar[int]
    EXEC_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    CONNECT_FIELD_NUMBER: _ClassVar[int]
    DNS_FIELD_NUMBER: _ClassVar[int]
    OOM_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time_ns: int
    pid: int
    tid: int
    ppid: int
    uid: int
    comm: str
    exe: str
    count: int
    span: int
    mnt_ns: int
    inner_pid: int
    session: int
    seccomp: Seccomp
    syscall: Syscall
    exec: Exec
    fork: Fork
    exit: Exit
    connect: Connect
    dns: Dns
    oom: Oom
    file: File
    signal: Signal
    limit: Limit
    loss: Loss
    def __init__(self, sequence: _Optional[int] = ..., time_ns: _Optional[int] = ..., pid: _Optional[int] = ..., tid: _Optional[int] = ..., ppid: _Optional[int] = ..., uid: _Optional[int] = ..., comm: _Optional[str] = ..., exe: _Optional[str] = ..., count: _Optional[int] = ..., span: _Optional[int] = ..., mnt_ns: _Optional[int] = ..., inner_pid: _Optional[int] = ..., session: _Optional[int] = ..., seccomp: _Optional[_Union[Seccomp, _Mapping]] = ..., syscall: _Optional[_Union[Syscall, _Mapping]] = ..., exec: _Optional[_Union[Exec, _Mapping]] = ..., fork: _Optional[_Union[Fork, _Mapping]] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ..., connect: _Optional[_Union[Connect, _Mapping]] = ..., dns: _Optional[_Union[Dns, _Mapping]] = ..., oom: _Optional[_Union[Oom, _Mapping]] = ..., file: _Optional[_Union[File, _Mapping]] = ..., signal: _Optional[_Union[Signal, _Mapping]] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., loss: _Optional[_Union[Loss, _Mapping]] = ...) -> None: ...

class Seccomp(_message.Message):
    __slots__ = ("syscall", "args", "detail", "path", "action", "errno", "filter", "next", "calls_after")
    SYSCALL_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    CALLS_AFTER_FIELD_NUMBER: _ClassVar[int]
    syscall: str
    args: _containers.RepeatedScalarFieldContainer[int]
    detail: str
    path: str
    action: str
    errno: str
    filter: str
    next: _containers.RepeatedScalarFieldContainer[str]
    calls_after: int
    def __init__(self, syscall: _Optional[str] = ..., args: _Optional[_Iterable[int]] = ..., detail: _Optional[str] = ..., path: _Optional[str] = ..., action: _Optional[str] = ..., errno: _Optional[str] = ..., filter: _Optional[str] = ..., next: _Optional[_Iterable[str]] = ..., calls_after: _Optional[int] = ...) -> None: ...

class Syscall(_message.Message):
    __slots__ = ("syscall", "args", "detail", "errno", "path", "port", "limit", "usage", "capabilities", "user_ns")
    SYSCALL_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    USER_NS_FIELD_NUMBER: _ClassVar[int]
    syscall: str
    args: _containers.RepeatedScalarFieldContainer[int]
    detail: str
    errno: str
    path: str
    port: int
    limit: int
    usage: int
    capabilities: int
    user_ns: int
    def __init__(self, syscall: _Optional[str] = ..., args: _Optional[_Iterable[int]] = ..., detail: _Optional[str] = ..., errno: _Optional[str] = ..., path: _Optional[str] = ..., port: _Optional[int] = ..., limit: _Optional[int] = ..., usage: _Optional[int] = ..., capabilities: _Optional[int] = ..., user_ns: _Optional[int] = ...) -> None: ...

class Exec(_message.Message):
    __slots__ = ("path", "argv", "cwd", "errno", "reason", "detail", "searched", "found", "size", "limit", "stdin", "stdout")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    path: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    cwd: str
    errno: str
    reason: str
    detail: str
    searched: _containers.RepeatedScalarFieldContainer[str]
    found: str
    size: int
    limit: int
    stdin: str
    stdout: str
    def __init__(self, path: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., cwd: _Optional[str] = ..., errno: _Optional[str] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., searched: _Optional[_Iterable[str]] = ..., found: _Optional[str] = ..., size: _Optional[int] = ..., limit: _Optional[int] = ..., stdin: _Optional[str] = ..., stdout: _Optional[str] = ...) -> None: ...

class Fork(_message.Message):
    __slots__ = ("syscall", "errno", "cgroup", "pids_max", "pids_current", "nproc_limit", "tasks_of_user", "tasks", "threads_max", "pid_max", "without_init")
    SYSCALL_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    CGROUP_FIELD_NUMBER: _ClassVar[int]
    PIDS_MAX_FIELD_NUMBER: _ClassVar[int]
    PIDS_CURRENT_FIELD_NUMBER: _ClassVar[int]
    NPROC_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TASKS_OF_USER_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    THREADS_MAX_FIELD_NUMBER: _ClassVar[int]
    PID_MAX_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_INIT_FIELD_NUMBER: _ClassVar[int]
    syscall: str
    errno: str
    cgroup: str
    pids_max: int
    pids_current: int
    nproc_limit: int
    tasks_of_user: int
    tasks: int
    threads_max: int
    pid_max: int
    without_init: bool
    def __init__(self, syscall: _Optional[str] = ..., errno: _Optional[str] = ..., cgroup: _Optional[str] = ..., pids_max: _Optional[int] = ..., pids_current: _Optional[int] = ..., nproc_limit: _Optional[int] = ..., tasks_of_user: _Optional[int] = ..., tasks: _Optional[int] = ..., threads_max: _Optional[int] = ..., pid_max: _Optional[int] = ..., without_init: _Optional[bool] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("code", "signal", "core", "duration_s", "reaper", "silenced", "last_words", "last_output", "missing", "gone")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CORE_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    REAPER_FIELD_NUMBER: _ClassVar[int]
    SILENCED_FIELD_NUMBER: _ClassVar[int]
    LAST_WORDS_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: str
    core: bool
    duration_s: float
    reaper: int
    silenced: bool
    last_words: str
    last_output: str
    missing: _containers.RepeatedScalarFieldContainer[str]
    gone: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[int] = ..., signal: _Optional[str] = ..., core: _Optional[bool] = ..., duration_s: _Optional[float] = ..., reaper: _Optional[int] = ..., silenced: _Optional[bool] = ..., last_words: _Optional[str] = ..., last_output: _Optional[str] = ..., missing: _Optional[_Iterable[str]] = ..., gone: _Optional[_Iterable[str]] = ...) -> None: ...

class Connect(_message.Message):
    __slots__ = ("family", "address", "port", "protocol", "errno", "in_use", "abandoned", "duration_s", "route", "server")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    IN_USE_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    family: str
    address: str
    port: int
    protocol: str
    errno: str
    in_use: bool
    abandoned: bool
    duration_s: float
    route: str
    server: int
    def __init__(self, family: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., protocol: _Optional[str] = ..., errno: _Optional[str] = ..., in_use: _Optional[bool] = ..., abandoned: _Optional[bool] = ..., duration_s: _Optional[float] = ..., route: _Optional[str] = ..., server: _Optional[int] = ...) -> None: ...

class Dns(_message.Message):
    __slots__ = ("name", "query", "resolver", "rcode", "duration_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    RESOLVER_FIELD_NUMBER: _ClassVar[int]
    RCODE_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    query: str
    resolver: str
    rcode: str
    duration_s: float
    def __init__(self, name: _Optional[str] = ..., query: _Optional[str] = ..., resolver: _Optional[str] = ..., rcode: _Optional[str] = ..., duration_s: _Optional[float] = ...) -> None: ...

class Oom(_message.Message):
    __slots__ = ("scope", "cgroup", "limit", "usage", "virtual", "trigger", "biggest", "pressure")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CGROUP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    BIGGEST_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    scope: str
    cgroup: str
    limit: int
    usage: int
    virtual: int
    trigger: int
    biggest: _containers.RepeatedScalarFieldContainer[str]
    pressure: float
    def __init__(self, scope: _Optional[str] = ..., cgroup: _Optional[str] = ..., limit: _Optional[int] = ..., usage: _Optional[int] = ..., virtual: _Optional[int] = ..., trigger: _Optional[int] = ..., biggest: _Optional[_Iterable[str]] = ..., pressure: _Optional[float] = ...) -> None: ...

class File(_message.Message):
    __slots__ = ("syscall", "path", "errno", "detail", "cwd", "mode", "obstacle", "mount", "fstype", "size", "free", "free_inodes", "mount_flags", "limit", "capabilities", "user_ns", "reason")
    SYSCALL_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FIELD_NUMBER: _ClassVar[int]
    FSTYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    FREE_INODES_FIELD_NUMBER: _ClassVar[int]
    MOUNT_FLAGS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    USER_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    syscall: str
    path: str
    errno: str
    detail: str
    cwd: str
    mode: str
    obstacle: str
    mount: str
    fstype: str
    size: int
    free: int
    free_inodes: int
    mount_flags: str
    limit: int
    capabilities: int
    user_ns: int
    reason: str
    def __init__(self, syscall: _Optional[str] = ..., path: _Optional[str] = ..., errno: _Optional[str] = ..., detail: _Optional[str] = ..., cwd: _Optional[str] = ..., mode: _Optional[str] = ..., obstacle: _Optional[str] = ..., mount: _Optional[str] = ..., fstype: _Optional[str] = ..., size: _Optional[int] = ..., free: _Optional[int] = ..., free_inodes: _Optional[int] = ..., mount_flags: _Optional[str] = ..., limit: _Optional[int] = ..., capabilities: _Optional[int] = ..., user_ns: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Signal(_message.Message):
    __slots__ = ("signal", "target", "target_comm", "sender", "inside", "limit", "address", "mapping", "offset", "file_size", "detail")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TARGET_COMM_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MAPPING_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    signal: str
    target: int
    target_comm: str
    sender: str
    inside: bool
    limit: int
    address: int
    mapping: str
    offset: int
    file_size: int
    detail: str
    def __init__(self, signal: _Optional[str] = ..., target: _Optional[int] = ..., target_comm: _Optional[str] = ..., sender: _Optional[str] = ..., inside: _Optional[bool] = ..., limit: _Optional[int] = ..., address: _Optional[int] = ..., mapping: _Optional[str] = ..., offset: _Optional[int] = ..., file_size: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("limit", "value")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    limit: str
    value: int
    def __init__(self, limit: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class Loss(_message.Message):
    __slots__ = ("sense", "where")
    SENSE_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    sense: str
    where: str
    def __init__(self, sense: _Optional[str] = ..., where: _Optional[str] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[Any]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[Any, _Mapping]]] = ...) -> None: ...

class Any(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class RetryInfo(_message.Message):
    __slots__ = ("retry_delay",)
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    retry_delay: Duration
    def __init__(self, retry_delay: _Optional[_Union[Duration, _Mapping]] = ...) -> None: ...

class Duration(_message.Message):
    __slots__ = ("seconds", "nanos")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanos: int
    def __init__(self, seconds: _Optional[int] = ..., nanos: _Optional[int] = ...) -> None: ...
