"""A whole run on one page: what it says (model), and how it looks (page)."""

from collector.report.model import Page, build
from collector.report.page import render

__all__ = ["Page", "build", "render"]
