"""What every room of runners stands on."""
