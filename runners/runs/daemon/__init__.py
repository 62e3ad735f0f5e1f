"""The daemon, which runs submitted experiments, shows them, and takes orders. Its only state is the event stream."""
