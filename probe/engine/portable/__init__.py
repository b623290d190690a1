"""The engine without BPF: what any process may learn of others by looking, and by being told.

Where the process connector speaks (connector) it tells of each fork, exec and exit; elsewhere
/proc is looked at again and again (processes). The rest is the kernel log (kernel_log), the
counters of cgroups (cgroups), sockets that wait for an answer (sockets) and file systems that
are full (space). Most refusals leave no trace in any of them, and the coverage says so.
"""
