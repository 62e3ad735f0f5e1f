"""The benchmarks: speed and size as ratios to baselines of the same run."""
