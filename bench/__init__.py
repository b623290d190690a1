"""What the probe costs, each number beside its peers and its floor: `python -m bench`."""
