"""The report, without a browser and in one."""
