"""The daemon: runs submitted experiments, shows them and takes orders; its only state is the event stream."""
