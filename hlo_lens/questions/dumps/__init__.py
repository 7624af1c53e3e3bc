"""Facts about many modules: listing, processes, passes, health of a dump, XLA flags."""
