"""Running jobs: whether one hangs or is slowed by a GPU, from recorded series, which can be replayed."""
