//! The Python module `dumbbell._core`.
