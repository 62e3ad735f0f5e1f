"""How questions come, and who answers them."""
