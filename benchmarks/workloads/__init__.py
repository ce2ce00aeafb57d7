"""The workloads of `run.py`: `shared` says what they are, the other files how they run."""
