"""The engine that traces: it stops a command at each of its syscalls, as strace(1) does.

It needs no BPF and few rights, and costs what strace costs: so it runs only where somebody
asks for it (`probe run --engine ptrace`). A process of its own does the tracing (tracer), as
whoever waits for the command must not see its stops.
"""
