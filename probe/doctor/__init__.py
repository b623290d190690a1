"""What this sandbox can do: each primitive looked at, what follows from it, and what differs."""

from probe.doctor.examination import SCHEMA_ID, Examination, examine

__all__ = ["SCHEMA_ID", "Examination", "examine"]
