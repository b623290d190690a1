"""The engine for kernels without BTF: bcc compiles its programs where they run."""
