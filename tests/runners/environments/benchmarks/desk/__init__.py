"""The desk benchmark: templates, workspaces, variants and graders."""
