"""The engines: they know the kernel, and nothing of tests."""
