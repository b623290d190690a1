#!python
"""The command `probe`."""

from probe.cli import main

main()
