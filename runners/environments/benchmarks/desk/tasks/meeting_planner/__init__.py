"""meeting-planner: find the earliest slot that suits several calendars, choose a room, and write the invitation."""
