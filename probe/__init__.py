"""The half that is baked into a sandbox image: listen, attribute, record, explain, stream."""

__version__ = "0.1.0"
