"""The host computer: scratch folders, package installs, HTTP servers, signals."""
